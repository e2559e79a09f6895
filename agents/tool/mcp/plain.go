package mcp

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// endTakes is how long a process may take to end after its input was closed.
const endTakes = 500 * time.Millisecond

// Plain starts a server as a process like the platform's own, without any
// sandbox: for servers whose owner says so. What it writes to its standard
// error is dropped, since it may hold anything.
func Plain(_ context.Context, command Command) (Process, error) {
	s := command.Server
	cmd := exec.Command(s.Command, s.Args...) //nolint:gosec,noctx // the command is the configuration's; it lives longer than the call that began it
	cmd.Dir, cmd.Env = command.Folder, command.Environment
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be our own
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &plain{cmd: cmd, in: in, out: out}, nil
}

type plain struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser

	once  sync.Once
	ended error
}

func (p *plain) Read(into []byte) (int, error)  { return p.out.Read(into) }
func (p *plain) Write(from []byte) (int, error) { return p.in.Write(from) }

// Close closes the input, which asks a server to end, and after a while kills
// what is left of its process group. What has left the group stays: nothing but
// a sandbox could hold it, and nobody waits for it.
func (p *plain) Close() error {
	p.once.Do(func() {
		_ = p.in.Close() // it may be closed already
		kill := func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
		timer := time.AfterFunc(endTakes, func() {
			kill()
			_ = p.out.Close() // others may hold it open
		})
		_, _ = io.Copy(io.Discard, p.out) // until its end, so that a server that still writes can end
		p.ended = p.cmd.Wait()
		timer.Stop()
		kill() // what it started and left behind
	})
	var status *exec.ExitError
	if errors.As(p.ended, &status) {
		return nil // how it ended does not matter
	}
	return p.ended
}
