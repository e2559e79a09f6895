package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// innerName is the name under which this program is started again, to become
// another one after it has shut itself in.
const innerName = "gantry-sandbox"

// The descriptors that the inner program gets beside the usual three.
const (
	specFile  = 3 // its Spec, as JSON
	stateFile = 4 // a byte of it says what failed; its end, that the other program runs
)

// ready is set where this program begins with Inner.
var ready atomic.Bool

// Start starts a program: in namespaces of its own for users, processes, files,
// network and the rest, with a root that holds only what it may see, confined
// by Landlock besides, without any capability. When it ends, or is closed, all
// that it started ends too. Errors: ErrUnable.
func Start(spec Spec) (*Process, error) {
	version := landlockVersion()
	switch {
	case !ready.Load():
		return nil, fmt.Errorf("a program %w: this program does not begin as one that can", ErrUnable)
	case version < 4:
		return nil, fmt.Errorf("a program %w: the kernel's Landlock is too old or off", ErrUnable)
	case !filepath.IsAbs(spec.Command) || !filepath.IsAbs(spec.Folder):
		return nil, errors.New("command and folder must be absolute paths")
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p := &Process{Report: Report{Kind: "namespaces+landlock", Version: version, Network: network(spec.Ports)}}
	flags := unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if len(spec.Ports) == 0 {
		flags |= unix.CLONE_NEWNET
	}
	p.cmd = exec.Command("/proc/self/exe") //nolint:noctx // it lives longer than the call that began it
	p.cmd.Args, p.cmd.Env, p.cmd.Dir = []string{innerName}, []string{}, "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(flags), Setsid: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.begin(text)
}

// begin starts the inner program and waits until it has become the other one,
// or says that it cannot.
func (p *Process) begin(spec []byte) error {
	specIn, specOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = specOut.Close() }()
	stateIn, stateOut, err := os.Pipe()
	if err != nil {
		_ = specIn.Close()
		return err
	}
	defer func() { _ = stateIn.Close() }()
	p.cmd.ExtraFiles = []*os.File{specIn, stateOut}
	err = p.cmd.Start()
	_, _ = specIn.Close(), stateOut.Close()
	if err != nil {
		return fmt.Errorf("a program %w: the system gives it no namespaces", ErrUnable)
	}
	_, err = specOut.Write(spec)
	_ = specOut.Close()
	said, readErr := io.ReadAll(io.LimitReader(stateIn, 256))
	if err == nil && readErr == nil && len(said) == 0 {
		return nil
	}
	_ = p.Close()
	return fmt.Errorf("a program %w: %s", ErrUnable, said)
}

func network(ports []uint16) string {
	if len(ports) == 0 {
		return "none"
	}
	return fmt.Sprintf("TCP to the ports %v of any host; UDP is open", ports)
}

func landlockVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}
