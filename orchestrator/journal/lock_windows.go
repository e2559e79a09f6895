package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes a lock that ends with the process. Errors: ErrInUse.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{}); err != nil {
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			err = ErrInUse
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unlockFile gives the lock back.
func unlockFile(file *os.File) error { return file.Close() }
