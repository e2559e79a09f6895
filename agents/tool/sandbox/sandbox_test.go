//go:build linux

package sandbox_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool/sandbox"
)

// TestMain is also the tool under test: it tries what it is told and says what
// came of it.
func TestMain(m *testing.M) {
	sandbox.Inner()
	if len(os.Args) > 1 && os.Args[1] == "hostile" {
		hostile()
		return
	}
	os.Exit(m.Run())
}

// attempt is one thing that the tool tries.
type attempt struct{ Does, On string }

func hostile() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var a attempt
		if err := in.Decode(&a); err != nil {
			return
		}
		said, err := try(a)
		if err != nil {
			said = "error: " + err.Error()
		}
		_ = out.Encode(said)
	}
}

func try(a attempt) (string, error) {
	switch a.Does {
	case "read":
		text, err := os.ReadFile(a.On)
		return "done: " + string(text), err
	case "write":
		return "done", os.WriteFile(a.On, []byte("mine"), 0o600)
	case "list":
		entries, err := os.ReadDir(a.On)
		names := []string{}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return "done: " + strings.Join(names, " "), err
	case "environment":
		return "done: " + strings.Join(os.Environ(), " "), nil
	case "tcp", "udp", "unix":
		conn, err := net.DialTimeout(a.Does, a.On, time.Second)
		if err != nil {
			return "", err
		}
		_, err = conn.Write([]byte("hello"))
		return "done", err
	case "descriptor":
		fd, _ := strconv.Atoi(a.On)
		var stat syscall.Stat_t
		return "done", syscall.Fstat(fd, &stat)
	case "signal":
		pid, _ := strconv.Atoi(a.On)
		return "done", syscall.Kill(pid, 0)
	case "mount":
		return "done", syscall.Mount("tmpfs", a.On, "tmpfs", 0, "")
	case "namespace":
		return "done", exec.Command("/usr/bin/unshare", "-Ur", "true").Run()
	case "fork": // leaves somebody behind that goes on with the standard output
		child := exec.Command("/bin/sleep", "1000")
		child.Stdout, child.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		return "done", child.Start()
	case "exit":
		os.Exit(0)
	}
	return "", errors.New("no such thing")
}

type tool struct {
	t *testing.T
	*sandbox.Process
	out *json.Encoder
	in  *bufio.Reader
}

func start(t *testing.T, change func(*sandbox.Spec)) tool {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	spec := sandbox.Spec{Command: self, Args: []string{"hostile"}, Env: []string{"DECLARED=yes"}, Folder: t.TempDir()}
	if change != nil {
		change(&spec)
	}
	p, err := sandbox.Start(spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return tool{t, p, json.NewEncoder(p), bufio.NewReader(p)}
}

func (x tool) tries(does, on string) string {
	x.t.Helper()
	require.NoError(x.t, x.out.Encode(attempt{does, on}))
	line, err := x.in.ReadString('\n')
	require.NoError(x.t, err)
	var said string
	require.NoError(x.t, json.Unmarshal([]byte(line), &said))
	return said
}

func (x tool) fails(does, on string) {
	x.t.Helper()
	require.Contains(x.t, x.tries(does, on), "error: ", "%s %s", does, on)
}

func TestFault_E16_AToolSeesNoFileOfTheHost(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("of the host"), 0o600))
	var folder string
	x := start(t, func(s *sandbox.Spec) { folder = s.Folder })
	require.Equal(t, "namespaces+landlock", x.Report.Kind)
	for _, file := range []string{secret, "/etc/passwd", "/etc/shadow", "/root", "/proc/1/environ", "/sys/kernel"} {
		if file == "/proc/1/environ" {
			require.NotContains(t, x.tries("read", file), os.Getenv("PATH"), "what is there is its own")
			continue
		}
		x.fails("read", file)
	}
	for _, file := range []string{filepath.Join(outside, "new"), "/usr/bin/new", "/etc/new", "/dev/new"} {
		x.fails("write", file)
	}
	require.Equal(t, "done", x.tries("write", filepath.Join(folder, "own")), "its folder is its own")
	text, err := os.ReadFile(filepath.Join(folder, "own"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.Equal(t, "done", x.tries("write", "/tmp/own"))
	require.NoFileExists(t, "/tmp/own", "and so is its /tmp")
	x.fails("mount", folder)
	x.fails("namespace", "")
}

func TestFault_E16_WhatIsDeclaredMayBeReadAndNotWritten(t *testing.T) {
	declared := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(declared, "a"), []byte("shared"), 0o600))
	x := start(t, func(s *sandbox.Spec) { s.Read = []string{declared} })
	require.Equal(t, "done: shared", x.tries("read", filepath.Join(declared, "a")))
	x.fails("write", filepath.Join(declared, "a"))
	x.fails("write", filepath.Join(declared, "b"))
}

func TestFault_E16_AToolReachesNoNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "s")
	named, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer func() { _ = named.Close() }()
	abstract, err := net.Listen("unix", "@gantry-test-"+port)
	require.NoError(t, err)
	defer func() { _ = abstract.Close() }()

	x := start(t, nil)
	require.Equal(t, "none", x.Report.Network)
	x.fails("tcp", listener.Addr().String())
	x.fails("tcp", "1.1.1.1:443")
	x.fails("udp", "1.1.1.1:53")
	x.fails("unix", socket)
	x.fails("unix", "@gantry-test-"+port)

	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	y := start(t, func(s *sandbox.Spec) { s.Ports = []uint16{uint16(number)} })
	require.Contains(t, y.Report.Network, port)
	require.Equal(t, "done", y.tries("tcp", listener.Addr().String()))
	y.fails("tcp", other.Addr().String())
	y.fails("unix", socket)
	y.fails("unix", "@gantry-test-"+port)
}

func TestFault_E16_AToolHasNothingOfItsStarter(t *testing.T) {
	t.Setenv("GANTRY_SECRET", "of the platform")
	inherited, err := os.Open("/etc/passwd")
	require.NoError(t, err)
	defer func() { _ = inherited.Close() }()
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, inherited.Fd(), syscall.F_SETFD, 0) // somebody forgot close-on-exec
	require.Zero(t, errno)
	x := start(t, nil)
	require.Equal(t, "done: DECLARED=yes", x.tries("environment", ""))
	x.fails("descriptor", strconv.Itoa(int(inherited.Fd())))
	x.fails("signal", strconv.Itoa(os.Getpid()))
	require.Equal(t, "done", x.tries("signal", "1"), "it is the first process of its own")
}

func TestFault_E16_NothingThatAToolLeavesBehindGoesOn(t *testing.T) {
	x := start(t, nil)
	require.Equal(t, "done", x.tries("fork", ""))
	require.NoError(t, x.out.Encode(attempt{Does: "exit"}))
	rest, err := io.ReadAll(x.in) // ends when nobody holds the other side any more
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestFault_E16_WhatCannotBeKeptApartIsNotStarted(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name, spec := range map[string]sandbox.Spec{
		"no folder":       {Command: self, Folder: "/nowhere/at/all"},
		"no program":      {Command: "/usr/bin/no-such-program", Folder: t.TempDir()},
		"relative folder": {Command: self, Folder: "here"},
	} {
		_, err := sandbox.Start(spec)
		require.Error(t, err, name)
	}
}
