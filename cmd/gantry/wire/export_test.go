package wire

import "gantry.dev/orchestrator/bus"

// Bus is the process's bus, for tests that speak to it by message.
func (p *Platform) Bus() *bus.Bus { return p.bus }

// NewHTTP and Bound are how the interface is listened for.
var (
	NewHTTP = newHTTP
	Bound   = bound
)
