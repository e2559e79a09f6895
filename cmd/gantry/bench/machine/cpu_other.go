//go:build !unix

package machine

import "time"

// ProcessCPU is not measured here.
func ProcessCPU() time.Duration { return 0 }
