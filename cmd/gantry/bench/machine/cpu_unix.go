//go:build unix

package machine

import (
	"syscall"
	"time"
)

// ProcessCPU is what this process has used, user and system.
func ProcessCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
