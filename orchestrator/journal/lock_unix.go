//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process. Errors: ErrInUse.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unlockFile gives the lock back. Closing alone would leave it with a process
// that another part of this one is about to start: until it runs its program
// such a process has every open file.
func unlockFile(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}
