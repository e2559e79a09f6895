// Package sandbox starts programs that somebody else wrote, as servers of
// tools, apart from the machine: with no environment, no file, no network and no
// descriptor but what was declared.
//
// Where the system cannot keep a program apart, none is started. A program that
// uses this package calls Inner first of all: what it starts begins as itself.
package sandbox

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

// ErrUnable means that the system, or this program, cannot keep another one
// apart. What says it wraps it.
var ErrUnable = errors.New("cannot be kept apart here")

// Spec is a program to start.
type Spec struct {
	Command string   `json:"command"` // absolute path
	Args    []string `json:"args"`
	Env     []string `json:"env"`    // "NAME=value", and nothing else
	Folder  string   `json:"folder"` // absolute path; it may write there, and works there
	Read    []string `json:"read"`   // absolute paths of files and folders that it may read
	Ports   []uint16 `json:"ports"`  // TCP ports that it may reach, on any host; none: no network at all
}

// Report is how far a program is kept apart.
type Report struct {
	Kind    string // "namespaces+landlock"
	Version int    // of Landlock's interface
	Network string // "none", or which ports
}

// Process is a program that was started. Reading reads what it says on its
// standard output, writing goes to its standard input. What it writes to its
// standard error is dropped: it may hold anything.
type Process struct {
	Report Report

	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	once  sync.Once
	ended error
}

// endTakes is how long a program may take to end after its input was closed.
const endTakes = 500 * time.Millisecond

// Read reads from the program's standard output.
func (p *Process) Read(into []byte) (int, error) { return p.out.Read(into) }

// Write writes to the program's standard input.
func (p *Process) Write(from []byte) (int, error) { return p.in.Write(from) }

// Close closes the program's input, which asks it to end, and after a while
// kills it with all that it started. How it ended does not matter.
func (p *Process) Close() error {
	p.once.Do(func() {
		_ = p.in.Close() // it may be closed already
		timer := time.AfterFunc(endTakes, func() { _ = p.cmd.Process.Kill() })
		_, _ = io.Copy(io.Discard, p.out) // until its end, so that one that still writes can end
		p.ended = p.cmd.Wait()
		timer.Stop()
	})
	var status *exec.ExitError
	if errors.As(p.ended, &status) {
		return nil
	}
	return p.ended
}
