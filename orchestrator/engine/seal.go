package engine

import (
	"crypto/rand"

	"github.com/google/uuid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Source gives fresh ids and salts.
type Source interface {
	ID() string
	Salt() []byte // 16 bytes
}

// RandomSource draws from the operating system. Its ids sort by time.
type RandomSource struct{}

// ID returns a version 7 UUID.
func (RandomSource) ID() string { return uuid.Must(uuid.NewV7()).String() }

// Salt returns 16 random bytes.
func (RandomSource) Salt() []byte {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // crypto/rand.Read never fails
	return salt
}

// Seal makes the reference and the payload of a text.
func Seal(source Source, runID, subject string, marking policy.Marking, bytes []byte) (run.Text, Payload) {
	salt := source.Salt()
	text := run.Text{ID: source.ID(), Commitment: run.Commit(salt, bytes), Size: len(bytes), Subject: subject, Marking: marking}
	return text, Payload{Text: text, Run: runID, Salt: salt, Bytes: bytes}
}
