//go:build unix

package wire_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gantry.dev/cmd/gantry/wire"
)

// children are what this test binary does as a child process, by the variable
// of its environment that says so.
var children = map[string]func(ctx context.Context) error{"CRASH": crashChild}

// atEnd is what is told when all tests are over.
var atEnd []func()

// last adds to that.
func last(tell func()) bool {
	atEnd = append(atEnd, tell)
	return true
}

// The child process is this test binary again, told by its environment what to
// do and where to die.
func TestMain(m *testing.M) {
	for name, child := range children {
		if os.Getenv(name) == "" {
			continue
		}
		if err := child(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	for _, tell := range atEnd {
		tell()
	}
	os.Exit(code)
}

// still before a point means that the process stands still there, and goes on.
const still = "still "

// dieAt kills the process at the nth passing of a point.
func dieAt(site string) wire.Site {
	site, stands := strings.CutPrefix(site, still)
	if site == "" {
		return nil
	}
	var mu sync.Mutex
	passed := map[string]int{}
	return func(name string) {
		mu.Lock()
		defer mu.Unlock()
		passed[name]++
		if fmt.Sprintf("%s#%d", name, passed[name]) == site {
			if stands {
				standStill()
				return
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the kill is on its way
		}
	}
}
