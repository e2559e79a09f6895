package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/zalando/go-keyring"
)

// mostBytes bounds a secret.
const mostBytes = 64 << 10

var errTooLong = errors.New("longer than a secret may be")

// environment reads variables of the process.
type environment struct{}

// Read returns a variable.
func (environment) Read(_ context.Context, name string) (string, error) {
	value, set := os.LookupEnv(name)
	if !set {
		return "", errors.New("no such variable")
	}
	return value, nil
}

// files reads files anew for each use: what is rotated counts at once. What is
// no file, such as a pipe, could be read once at most and hold up whoever does.
type files struct{}

// Read returns a file's text without the line end behind it.
func (files) Read(_ context.Context, path string) (string, error) {
	if about, err := os.Stat(path); err != nil || !about.Mode().IsRegular() {
		return "", errors.New("no such file")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostBytes+1))
	if err != nil {
		return "", err
	}
	return secretOf(text)
}

func secretOf(text []byte) (string, error) {
	if len(text) > mostBytes {
		return "", errTooLong
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// ring reads the keyring of the operating system.
type ring struct{}

// Read returns the secret of "SERVICE/USER".
func (ring) Read(_ context.Context, reference string) (string, error) {
	service, user, found := strings.Cut(reference, "/")
	if !found {
		return "", errors.New("a keyring's reference is SERVICE/USER")
	}
	return keyring.Get(service, user)
}

// printed runs a program of the operator's and returns what it prints. It gets
// of the environment what programs need to find their own configuration.
func printed(ctx context.Context, command []string) (string, error) {
	var out bytes.Buffer
	program := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the operator names the program
	program.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	// What it starts ends with it, and holds nobody up by keeping its output open.
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
	program.Cancel, program.WaitDelay = kill, lingers
	program.Stdout = &limited{to: &out, left: mostBytes + 1}
	err := program.Run()
	if program.Process != nil {
		_ = kill() // what it left behind, if anything
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("%w (command)", ErrSource)
	}
	value, err := secretOf(out.Bytes())
	if err != nil || value == "" {
		return "", fmt.Errorf("%w (command)", ErrSource)
	}
	return value, nil
}

// lingers is how long the output of a program may stay open after its end.
const lingers = 500 * time.Millisecond

// limited keeps so many bytes and drops the rest.
type limited struct {
	to   *bytes.Buffer
	left int
}

// Write never fails: a program that floods is not held up by it.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.to.Write(p[:n])
	l.left -= n
	return len(p), nil
}
