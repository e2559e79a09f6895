package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Inner is the beginning of every program that starts others. In a program that
// was started by Start it does not return: it shuts itself in and becomes the
// program that was asked for.
func Inner() {
	if len(os.Args) == 0 || os.Args[0] != innerName {
		ready.Store(true)
		return
	}
	runtime.LockOSThread() // what confines it confines a thread
	state := os.NewFile(stateFile, "state")
	unix.CloseOnExec(stateFile)
	err := become(os.NewFile(specFile, "spec"))
	_, _ = fmt.Fprint(state, err) // nobody else is there to hear it
	os.Exit(1)
}

// become shuts this process in and runs the program in its place. It returns
// only an error, which names no secret.
func become(file *os.File) error {
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	var spec Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	if err := newRoot(spec); err != nil {
		return err
	}
	if err := limit(); err != nil {
		return err
	}
	if err := confine(spec); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := unix.Dup2(int(null.Fd()), 2); err != nil {
		return err
	}
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	return fmt.Errorf("run: %w", unix.Exec(spec.Command, append([]string{spec.Command}, spec.Args...), spec.Env))
}

// systemPaths are what programs need of a system: programs, libraries, time
// zones. No other host file is there.
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"}

// networkPaths are there besides for who may reach the network.
var networkPaths = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates"}

var devices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// seen are the host paths that a program sees, those that it reads first.
func (s Spec) seen() []string {
	paths := append(append([]string{}, systemPaths...), s.Command)
	if len(s.Ports) > 0 {
		paths = append(paths, networkPaths...)
	}
	return append(append(paths, s.Read...), devices...)
}

// piece is a part of the host's files on its way to the new root.
type piece struct {
	path  string
	tree  int    // descriptor of the detached mount
	link  string // where a symbolic link leads
	isDir bool
}

// newRoot gives the process a root of its own that holds only what the program
// may see. All that it may see is taken hold of before the new root covers the
// folder.
func newRoot(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	var pieces []piece
	for _, path := range append(spec.seen(), spec.Folder) {
		one, err := take(path, path != spec.Folder && !under(path, "/dev"))
		if os.IsNotExist(err) && path != spec.Folder && path != spec.Command {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		pieces = append(pieces, one)
	}
	root := spec.Folder
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64m,mode=755"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, one := range pieces {
		if err := one.put(root); err != nil {
			return fmt.Errorf("%s: %w", one.path, err)
		}
	}
	for _, folder := range []string{"/tmp", "/proc"} {
		if err := os.MkdirAll(root+folder, 0o700); err != nil {
			return err
		}
	}
	// Some containers allow no /proc anew. The program then has none.
	_ = unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("old root: %w", err)
	}
	return unix.Chdir(spec.Folder)
}

// take takes hold of a host path, which may only be read.
func take(path string, onlyRead bool) (piece, error) {
	found, err := os.Lstat(path)
	if err != nil {
		return piece{}, err
	}
	one := piece{path: filepath.Clean(path), isDir: found.IsDir()}
	if found.Mode()&os.ModeSymlink != 0 && filepath.Dir(path) == "/" { // /bin of a system whose programs are all in /usr
		one.link, err = os.Readlink(path)
		return one, err
	}
	if found, err = os.Stat(path); err != nil {
		return piece{}, err
	}
	one.isDir = found.IsDir()
	one.tree, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil || !onlyRead {
		return one, err
	}
	return one, unix.MountSetattr(one.tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

// put puts a piece at its path under the new root, unless a folder that holds
// it is there already.
func (p piece) put(root string) error {
	target := root + p.path
	if p.link != "" {
		return os.Symlink(p.link, target)
	}
	defer func() { _ = unix.Close(p.tree) }()
	if p.isDir {
		if err := os.MkdirAll(target, 0o755); err != nil { //nolint:gosec // what is mounted there has its own mode
			return err
		}
	} else if _, err := os.Lstat(target); err != nil {
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // as above
			return err
		}
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
	}
	return unix.MoveMount(p.tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// The most that a program may use.
const (
	mostFiles     = 1024
	mostProcesses = 512
	mostFileBytes = 1 << 30
)

// limit bounds what the process uses and takes every privilege from it and from
// all that it starts.
func limit() error {
	for resource, most := range map[int]uint64{unix.RLIMIT_NOFILE: mostFiles, unix.RLIMIT_NPROC: mostProcesses, unix.RLIMIT_FSIZE: mostFileBytes, unix.RLIMIT_CORE: 0} {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	for capability := uintptr(0); capability < 64; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			break // there are no more
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("privileges: %w", err)
	}
	return nil
}

func under(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
