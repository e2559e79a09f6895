//go:build !linux

package sandbox

import "fmt"

// Inner does nothing: no program is kept apart on this system.
func Inner() {}

// Start refuses every program: this system has no way to keep it apart that is
// known here. Errors: ErrUnable.
func Start(Spec) (*Process, error) {
	return nil, fmt.Errorf("a program %w: this system has no sandbox", ErrUnable)
}
