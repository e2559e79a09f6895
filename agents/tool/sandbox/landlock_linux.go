package sandbox

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a program may do with files: all that Landlock knows up to its fourth
// version, of which reading is a part.
const (
	readAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fullAccess = 1<<15 - 1
)

// confine lets the thread, and all that it becomes and starts, read what the
// program may see, write in its folder and /tmp, and reach its ports.
func confine(spec Spec) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fullAccess, Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}
	size := unsafe.Sizeof(attr.Handled_access_fs) + unsafe.Sizeof(attr.Handled_access_net)
	if landlockVersion() >= 6 { // sockets without a name in the file system, and signals to others
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size += unsafe.Sizeof(attr.Scoped)
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0) //nolint:gosec // how the kernel is called
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer func() { _ = unix.Close(int(ruleset)) }()
	for _, path := range append(spec.seen(), "/proc") {
		access := uint64(readAccess)
		if under(path, "/dev") {
			access |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE
		}
		if err := allow(int(ruleset), path, access); err != nil {
			return err
		}
	}
	if err := allow(int(ruleset), "/", unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil { // its own root: what is not for it is not there
		return err
	}
	for _, path := range []string{spec.Folder, "/tmp"} {
		if err := allow(int(ruleset), path, fullAccess); err != nil {
			return err
		}
	}
	for _, port := range spec.Ports {
		rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, 2, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 { //nolint:gosec // how the kernel is called
			return fmt.Errorf("landlock: %w", errno)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allow lets a path be used. One that is not there needs no rule.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		access &= fileAccess
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 { //nolint:gosec // how the kernel is called
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}
