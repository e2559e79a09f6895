package wire

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/notary"
)

// The files of the key that signs heads, in the folder of the keys. The ring
// has public keys only: whoever checks heads keeps a copy of it elsewhere.
const (
	headsKey  = "heads.key"
	headsRing = "heads-keys.json"
)

// HeadKeys reads the key that signs heads and the ring of all such keys, or
// makes them where create says so.
func HeadKeys(folder string, create bool, now time.Time) (notary.Signer, notary.Ring, error) {
	seed, err := secretFile(filepath.Join(folder, headsKey), ed25519.SeedSize, create)
	if err != nil {
		return notary.Signer{}, nil, err
	}
	secret := ed25519.NewKeyFromSeed(seed)
	ring, err := HeadRing(HeadRingPath(folder))
	if create && errors.Is(err, fs.ErrNotExist) {
		ring = notary.Ring{}.Add(secret.Public().(ed25519.PublicKey), now.UnixMilli())
		err = writeRing(folder, ring)
	}
	if err != nil {
		return notary.Signer{}, nil, err
	}
	signer, err := notary.NewSigner(secret, ring)
	if errors.Is(err, notary.ErrRevoked) {
		err = fmt.Errorf("%w; put another key in place with: gantry keys rotate --folder %s", err, folder)
	}
	return signer, ring, err
}

// HeadRingPath is where the ring is in a folder of keys.
func HeadRingPath(folder string) string { return filepath.Join(folder, headsRing) }

// HeadRing reads a ring of public keys.
func HeadRing(path string) (notary.Ring, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys of heads: %w", err)
	}
	var ring notary.Ring
	if err := json.Unmarshal(text, &ring); err != nil {
		return nil, fmt.Errorf("keys of heads: %s: %w", filepath.Base(path), err)
	}
	if err := ring.Validate(); err != nil {
		return nil, fmt.Errorf("keys of heads: %s: %w", filepath.Base(path), err)
	}
	return ring, nil
}

// RotateHeadKey puts a new key in place of the one that signs heads and returns
// its epoch. The old secret is gone; what it signed still verifies. The ring
// knows the new key before it is in use: whatever a crash leaves, the key that
// signs is in the ring.
func RotateHeadKey(folder string, now time.Time) (epoch int, err error) {
	ring, err := HeadRing(HeadRingPath(folder))
	if err != nil {
		return 0, err
	}
	fresh := filepath.Join(folder, headsKey+".new")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("key: %w", err)
	}
	seed, err := newSecret(fresh, ed25519.SeedSize)
	if err != nil {
		return 0, err
	}
	ring = ring.Add(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey), now.UnixMilli())
	if err := writeRing(folder, ring); err != nil {
		return 0, err
	}
	if err := os.Rename(fresh, filepath.Join(folder, headsKey)); err != nil {
		return 0, fmt.Errorf("key: %w", err)
	}
	return len(ring), nil
}

// RevokeHeadKey says that heads of an epoch are not believed when they are
// later than a moment, which must have come, and reports whether that epoch is
// the newest: then nothing is signed until another key is in place.
func RevokeHeadKey(folder string, epoch int, after, now time.Time) (newest bool, err error) {
	if after.After(now) {
		return false, fmt.Errorf("keys of heads: %s is still to come; a key is revoked from a moment on at which it was surely yours", after.UTC().Format(time.RFC3339))
	}
	ring, err := HeadRing(HeadRingPath(folder))
	if err != nil {
		return false, err
	}
	if ring, err = ring.Revoke(epoch, after.UnixMilli()); err != nil {
		return false, fmt.Errorf("keys of heads: %w", err)
	}
	return epoch == len(ring), writeRing(folder, ring)
}

// writeRing replaces the ring's file whole.
func writeRing(folder string, ring notary.Ring) error {
	text, err := json.MarshalIndent(ring, "", "  ")
	if err != nil {
		return fmt.Errorf("keys of heads: %w", err)
	}
	file, err := os.CreateTemp(folder, headsRing+".*")
	if err != nil {
		return fmt.Errorf("keys of heads: %w", err)
	}
	_, writeErr := file.Write(append(text, '\n'))
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("keys of heads: %w", errors.Join(err, os.Remove(file.Name())))
	}
	if err := os.Rename(file.Name(), HeadRingPath(folder)); err != nil {
		return fmt.Errorf("keys of heads: %w", err)
	}
	return nil
}

// newNotary returns nil where this process signs no heads: none are kept, or it
// neither works nor serves.
func (c Config) newNotary(store *journal.Store) (*notary.Notary, error) {
	if c.Heads == "" || !c.Work && c.Listen == "" {
		return nil, nil
	}
	if _, _, err := HeadKeys(c.Folder, c.Dev, time.Now()); err != nil {
		return nil, err
	}
	keys := func() (notary.Signer, notary.Ring, error) { return HeadKeys(c.Folder, false, time.Time{}) }
	return notary.New(notary.Config{Store: store, Folder: c.Heads, Keys: keys}), nil
}

// attest signs heads at its own pace beside everything else.
func (p *Platform) attest(ctx context.Context) {
	ticker := time.NewTicker(p.Config.Attest)
	defer ticker.Stop()
	p.notary.Run(ctx, ticker.C, p.unattested)
}

func (p *Platform) unattested(err error) { p.Config.Log.Error("heads not signed", "error", err) }

// attestLast covers what was written to the very end.
func (p *Platform) attestLast() error {
	if p.notary == nil {
		return nil
	}
	if p.stopTell != nil { // the process had begun
		ctx, cancel := context.WithTimeout(context.Background(), p.Config.Drain)
		defer cancel()
		if err := p.notary.Sign(ctx); err != nil {
			p.unattested(err)
		}
	}
	return p.notary.Close()
}

// Look opens the store of a configuration to be looked at only: a process may be
// at work on it, and the right to read is enough. Close it when done. Errors:
// journal.ErrNoStore, journal.ErrVersion.
func Look(ctx context.Context, config Config) (*journal.Store, error) {
	keys, err := LoadKeys(config.Folder, false)
	if err != nil {
		return nil, err
	}
	return config.look(ctx, keys.Master)
}

func (c Config) look(ctx context.Context, master []byte) (*journal.Store, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return journal.Open(ctx, journal.Config{DSN: c.Database, MasterKey: master, ReadOnly: true})
}

// CheckHeads holds the database of a configuration against its folder of signed
// heads. It needs none of the installation's secrets.
func CheckHeads(ctx context.Context, config Config, ring notary.Ring, tell func(notary.Fault) error) (report notary.Report, err error) {
	store, err := config.look(ctx, make([]byte, 32)) // nothing is sealed or opened
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	snapshot, err := store.Snapshot(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	return notary.Check(ctx, notary.NewFolder(config.Heads), ring, snapshot, tell)
}
