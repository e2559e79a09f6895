package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gantry.dev/memory/rank"
)

const keySize = 32

// errSealed means that a row was changed by somebody without the keys, or that
// the master key is another.
var errSealed = errors.New("a text does not open under its item's key")

// keys makes keys from the master key.
type keys struct{ master []byte }

// purpose makes the key of an organisation for one use.
func (k keys) purpose(organisation, use string) []byte {
	key, err := hkdf.Key(sha256.New, k.master, nil, "gantry memory\x00"+use+"\x00"+organisation, keySize)
	if err != nil {
		panic(err) // the length is a constant that SHA-256 can give
	}
	return key
}

// Key makes the key of an organisation for one use: "etag", "terms". It is the
// same in every process that has the master key.
func (s *Store) Key(organisation, use string) []byte { return s.keys.purpose(organisation, use) }

// Digest is a keyed digest, so that nobody without the master key can tell by
// it what was digested.
func (s *Store) Digest(organisation, use string, parts ...string) string {
	mac := hmac.New(sha256.New, s.keys.purpose(organisation, use))
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// lookup is the digest by which a text that may be empty is looked up.
func (s *Store) lookup(organisation, use, text string) string {
	if text == "" {
		return ""
	}
	return s.Digest(organisation, use, text)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealer seals what belongs to one item, under the item's own key.
type sealer struct {
	aead cipher.AEAD
	item string
}

// make makes an item's key, and what of it is stored.
func (k keys) make(organisation, item string) (s sealer, wrapped []byte, err error) {
	plain := make([]byte, keySize)
	if _, err := rand.Read(plain); err != nil {
		return s, nil, err
	}
	master, err := newAEAD(k.purpose(organisation, "wrap"))
	if err != nil {
		return s, nil, err
	}
	aead, err := newAEAD(plain)
	return sealer{aead, item}, master.Seal(nil, nil, plain, []byte(item)), err //nolint:gosec // the AEAD makes its own random nonce
}

// ring opens the keys of one organisation's items.
type ring struct{ master cipher.AEAD }

func (k keys) ring(organisation string) (ring, error) {
	master, err := newAEAD(k.purpose(organisation, "wrap"))
	return ring{master}, err
}

func (r ring) unwrap(item string, wrapped []byte) (sealer, error) {
	plain, err := r.master.Open(nil, nil, wrapped, []byte(item))
	if err != nil {
		return sealer{}, errSealed
	}
	aead, err := newAEAD(plain)
	return sealer{aead, item}, err
}

func (s sealer) seal(role string, plain []byte) []byte {
	return s.aead.Seal(nil, nil, plain, []byte(s.item+"\x00"+role)) //nolint:gosec // the AEAD makes its own random nonce
}

func (s sealer) open(role string, sealed []byte) ([]byte, error) {
	plain, err := s.aead.Open(nil, nil, sealed, []byte(s.item+"\x00"+role))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

func (s sealer) sealJSON(role string, value any) ([]byte, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return s.seal(role, plain), nil
}

func (s sealer) openJSON(role string, sealed []byte, value any) error {
	plain, err := s.open(role, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, value)
}

// The roles of what is sealed under an item's key.
const (
	roleItem    = "item"
	roleSegment = "segment"
	roleTerms   = "terms"
	roleVector  = "vector"
)

func encodeVector(vector []float32) []byte {
	plain := make([]byte, 0, 4*len(vector))
	for _, value := range vector {
		plain = binary.LittleEndian.AppendUint32(plain, math.Float32bits(value))
	}
	return plain
}

func decodeVector(plain []byte) []float32 {
	vector := make([]float32, len(plain)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(plain[4*i:]))
	}
	return vector
}

func encodeTerms(terms rank.Terms) []byte {
	plain := make([]byte, 0, 8*len(terms))
	for _, term := range terms {
		plain = binary.LittleEndian.AppendUint32(plain, term.Hash)
		plain = binary.LittleEndian.AppendUint32(plain, math.Float32bits(term.Weight))
	}
	return plain
}

func decodeTerms(plain []byte) rank.Terms {
	terms := make(rank.Terms, len(plain)/8)
	for i := range terms {
		terms[i].Hash = binary.LittleEndian.Uint32(plain[8*i:])
		terms[i].Weight = math.Float32frombits(binary.LittleEndian.Uint32(plain[8*i+4:]))
	}
	return terms
}
