package journal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

const keySize = 32

// vault seals texts under a key per subject, which is wrapped by the master
// key. When a subject's key is gone, so are the texts.
type vault struct {
	master cipher.AEAD
	lock   string // after a SELECT of a key: holds up its erasure until the texts under it are committed
}

func newVault(master []byte) (*vault, error) {
	if len(master) != keySize {
		return nil, fmt.Errorf("master key: must have %d bytes", keySize)
	}
	aead, err := newAEAD(master)
	return &vault{master: aead}, err
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// fresh holds the keys that one transaction met or made. They are not kept
// beyond it: another process may erase the subject at any time.
type fresh map[string]cipher.AEAD

// key returns a subject's key, sql.ErrNoRows without one.
func (v *vault) key(ctx context.Context, db querier, met fresh, subject string) (cipher.AEAD, error) {
	if key, known := met[subject]; known {
		return key, nil
	}
	var wrapped []byte
	if err := db.QueryRowContext(ctx, "SELECT wrapped FROM subject_keys WHERE subject = ?"+v.lock, subject).Scan(&wrapped); err != nil {
		return nil, err
	}
	key, err := v.unwrap(subject, wrapped)
	if err == nil {
		met[subject] = key
	}
	return key, err
}

func (v *vault) unwrap(subject string, wrapped []byte) (cipher.AEAD, error) {
	plain, err := v.master.Open(nil, nil, wrapped, []byte(subject))
	if err != nil {
		return nil, errors.New("a subject's key does not open under the master key")
	}
	return newAEAD(plain)
}

// make makes a key and what of it is stored.
func (v *vault) make(subject string) (key cipher.AEAD, wrapped []byte, err error) {
	plain := make([]byte, keySize)
	if _, err := rand.Read(plain); err != nil {
		return nil, nil, err
	}
	wrapped = v.master.Seal(nil, nil, plain, []byte(subject)) //nolint:gosec // the AEAD makes its own random nonce
	key, err = newAEAD(plain)
	return key, wrapped, err
}

// create makes a key inside the caller's transaction.
func (v *vault) create(ctx context.Context, db changer, met fresh, subject string) (cipher.AEAD, error) {
	key, wrapped, err := v.make(subject)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "INSERT INTO subject_keys (subject, wrapped) VALUES (?, ?)", subject, wrapped)
	if err == nil {
		met[subject] = key
	}
	return key, err
}

// sealedForm is what is sealed of a payload: a byte that says which form it has,
// the length of the salt in one byte, the salt, the bytes. An older form is
// JSON.
type sealedForm struct {
	Salt  []byte `json:"salt"`
	Bytes []byte `json:"bytes"`
}

const binaryForm = 1

func (f sealedForm) encode() ([]byte, error) {
	if len(f.Salt) > math.MaxUint8 {
		return nil, errors.New("a salt is too long")
	}
	plain := make([]byte, 0, 2+len(f.Salt)+len(f.Bytes))
	plain = append(plain, binaryForm, byte(len(f.Salt)))
	return append(append(plain, f.Salt...), f.Bytes...), nil
}

func decodeSealed(plain []byte) (f sealedForm, err error) {
	if len(plain) < 2 || plain[0] != binaryForm {
		return f, json.Unmarshal(plain, &f)
	}
	salt := int(plain[1])
	if len(plain) < 2+salt {
		return f, errors.New("a text is cut short")
	}
	return sealedForm{Salt: plain[2 : 2+salt : 2+salt], Bytes: plain[2+salt:]}, nil
}

func (v *vault) seal(ctx context.Context, db changer, met fresh, p engine.Payload) ([]byte, error) {
	key, err := v.key(ctx, db, met, p.Text.Subject)
	if errors.Is(err, sql.ErrNoRows) {
		key, err = v.create(ctx, db, met, p.Text.Subject)
	}
	if err != nil {
		return nil, err
	}
	return seal(key, p)
}

func seal(key cipher.AEAD, p engine.Payload) ([]byte, error) {
	plain, err := sealedForm{p.Salt, p.Bytes}.encode()
	if err != nil {
		return nil, err
	}
	return key.Seal(nil, nil, plain, []byte(p.Text.ID)), nil //nolint:gosec // the AEAD makes its own random nonce
}

func (v *vault) open(ctx context.Context, db querier, met fresh, subject, id string, sealed []byte) (sealedForm, error) {
	var form sealedForm
	key, err := v.key(ctx, db, met, subject)
	if err != nil {
		return form, err
	}
	plain, err := key.Open(nil, nil, sealed, []byte(id))
	if err != nil {
		return form, errors.New("a text does not open under its subject's key")
	}
	return decodeSealed(plain)
}

// sealedRow is a row of the table of texts.
type sealedRow struct {
	id, run, subject string
	marking          string // JSON
	sealed           []byte
}

const payloadColumns = "id, run, subject, marking, sealed"

func scanSealed(row scanner) (r sealedRow, err error) {
	return r, row.Scan(&r.id, &r.run, &r.subject, &r.marking, &r.sealed)
}

func payloadRow(p engine.Payload, sealed []byte) ([]any, error) {
	marking, err := json.Marshal(p.Text.Marking)
	return []any{p.Text.ID, p.Run, p.Text.Subject, string(marking), sealed}, err
}

// payload is the text of a row that was opened. What its reference said of it
// follows from what was sealed.
func (r sealedRow) payload(form sealedForm) (engine.Payload, error) {
	text := run.Text{ID: r.id, Commitment: run.Commit(form.Salt, form.Bytes), Size: len(form.Bytes), Subject: r.subject}
	err := json.Unmarshal([]byte(r.marking), &text.Marking)
	return engine.Payload{Text: text, Run: r.run, Salt: form.Salt, Bytes: form.Bytes}, err
}
