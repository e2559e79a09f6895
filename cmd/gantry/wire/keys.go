package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Keys are the secrets of an installation.
type Keys struct {
	Master  []byte             // 32 bytes: wraps the keys of subjects
	Signing ed25519.PrivateKey // signs bearer tokens
}

// MakeKeys makes what is missing of the keys of a folder, those of heads too, and
// returns the names of the files that it made and of those that were there.
func MakeKeys(folder string, now time.Time) (made, found []string, err error) {
	for _, name := range []string{masterKey, signingKey, headsKey, headsRing} {
		if _, err := os.Stat(filepath.Join(folder, name)); errors.Is(err, fs.ErrNotExist) {
			made = append(made, name)
		} else {
			found = append(found, name)
		}
	}
	if _, err := LoadKeys(folder, true); err != nil {
		return nil, nil, err
	}
	_, _, err = HeadKeys(folder, true, now)
	return made, found, err
}

// The files of the secrets besides those of heads, in the folder of the keys.
const (
	masterKey  = "master.key"
	signingKey = "signing.key"
)

// LoadKeys reads the keys of a folder, or makes them where create says so.
func LoadKeys(folder string, create bool) (Keys, error) {
	master, err := secretFile(filepath.Join(folder, masterKey), 32, create)
	if err != nil {
		return Keys{}, err
	}
	seed, err := secretFile(filepath.Join(folder, signingKey), ed25519.SeedSize, create)
	if err != nil {
		return Keys{}, err
	}
	return Keys{Master: master, Signing: ed25519.NewKeyFromSeed(seed)}, nil
}

// secretFile reads a secret in hex, readable by its owner alone.
func secretFile(path string, size int, create bool) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, fmt.Errorf("key %s: there is none; make the keys once with: gantry keys --folder %s", filepath.Base(path), filepath.Dir(path))
		}
		return newSecret(path, size)
	}
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != size {
		return nil, fmt.Errorf("key %s: must be %d bytes in hex", filepath.Base(path), size)
	}
	return secret, nil
}

func newSecret(path string, size int) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	secret := make([]byte, size)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	_, writeErr := file.WriteString(hex.EncodeToString(secret) + "\n")
	return secret, errors.Join(writeErr, file.Sync(), file.Close())
}
