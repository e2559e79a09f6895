package notary

import (
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"gantry.dev/orchestrator/canon"
)

// Key is one public key that signs, or once signed, heads.
type Key struct {
	Epoch     int    `json:"epoch"`               // from 1, a new one for each key
	Public    string `json:"public"`              // Ed25519, hex
	FromMs    int64  `json:"fromMs"`              // UTC ms: when it was made
	RevokedMs int64  `json:"revokedMs,omitempty"` // UTC ms: heads that say they are later are not believed; 0 for none
}

// Ring is the keys of an installation, the oldest first. Whoever checks heads
// should have it from elsewhere than the heads.
type Ring []Key

// Add returns the ring with a new key.
func (r Ring) Add(public ed25519.PublicKey, nowMs int64) Ring {
	return append(slices.Clone(r), Key{Epoch: len(r) + 1, Public: hex.EncodeToString(public), FromMs: nowMs})
}

// Revoke returns the ring in which a key is not believed after a moment. The
// moment can only be moved back.
func (r Ring) Revoke(epoch int, afterMs int64) (Ring, error) {
	if epoch < 1 || epoch > len(r) {
		return nil, fmt.Errorf("there is no key of epoch %d", epoch)
	}
	if afterMs < 1 {
		return nil, errors.New("a key is revoked from a moment on")
	}
	changed := slices.Clone(r)
	if was := changed[epoch-1].RevokedMs; was == 0 || afterMs < was {
		changed[epoch-1].RevokedMs = afterMs
	}
	return changed, nil
}

// Validate refuses a ring whose epochs are not 1, 2, 3 and so on.
func (r Ring) Validate() error {
	for i, key := range r {
		if public, err := hex.DecodeString(key.Public); err != nil || len(public) != ed25519.PublicKeySize || key.Epoch != i+1 {
			return fmt.Errorf("key %d of the ring is not of epoch %d with %d bytes in hex", i+1, i+1, ed25519.PublicKeySize)
		}
	}
	return nil
}

// Signer signs heads with the newest key that it has the secret of.
type Signer struct {
	epoch  int
	secret ed25519.PrivateKey
}

// ErrRevoked means that a key may sign nothing any more.
var ErrRevoked = errors.New("the key that signs heads is revoked")

// NewSigner finds the epoch of a secret in the ring. Errors: ErrRevoked.
func NewSigner(secret ed25519.PrivateKey, ring Ring) (Signer, error) {
	public, _ := secret.Public().(ed25519.PublicKey)
	at := slices.IndexFunc(ring, func(key Key) bool { return key.Public == hex.EncodeToString(public) })
	if at < 0 {
		return Signer{}, errors.New("the key that signs heads is not in the ring")
	}
	if ring[at].RevokedMs != 0 {
		return Signer{}, fmt.Errorf("%w: it is of epoch %d", ErrRevoked, ring[at].Epoch)
	}
	return Signer{epoch: ring[at].Epoch, secret: secret}, nil
}

// sign returns a head's line without newline.
func (s Signer) sign(h Head) ([]byte, error) {
	form, err := h.form()
	if err != nil {
		return nil, err
	}
	return canon.Marshal(signed{Head: h, Signature: hex.EncodeToString(ed25519.Sign(s.secret, form))})
}

// believes reports why a head is not to be believed, "" where it is.
func (r Ring) believes(s signed) string {
	return cmp.Or(r.signedBy(s), r.revoked(s.Head))
}

// revoked reports why a head of a key of the ring came too late.
func (r Ring) revoked(h Head) string {
	if h.Epoch < 1 || h.Epoch > len(r) {
		return ""
	}
	if after := r[h.Epoch-1].RevokedMs; after != 0 && h.AtMs > after {
		return fmt.Sprintf("Key epoch %d is revoked for what is later than %s.", h.Epoch, moment(after))
	}
	return ""
}

// anyRevoked reports whether heads of the past may not be believed any more.
func (r Ring) anyRevoked() bool {
	return slices.ContainsFunc(r, func(key Key) bool { return key.RevokedMs != 0 })
}

// signedBy reports why a head's signature is of no key of the ring.
func (r Ring) signedBy(s signed) string {
	if s.Head.Epoch < 1 || s.Head.Epoch > len(r) {
		return fmt.Sprintf("It names key epoch %d, which is not in the ring.", s.Head.Epoch)
	}
	key := r[s.Head.Epoch-1]
	public, _ := hex.DecodeString(key.Public) // the ring was validated
	signature, err := hex.DecodeString(s.Signature)
	form, formless := s.Head.form()
	if err != nil || formless != nil || !ed25519.Verify(public, form, signature) {
		return fmt.Sprintf("Its signature is not of key epoch %d.", key.Epoch)
	}
	return ""
}
