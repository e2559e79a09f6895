package mcp

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool/sandbox"
)

// Confined starts a server apart from the machine, or as a process like the
// platform's own where its owner declared that. Where the system cannot keep it
// apart, it is not started. Errors: sandbox.ErrUnable.
func Confined(ctx context.Context, command Command) (Process, error) {
	s := command.Server
	switch s.Sandbox {
	case server.SandboxNone:
		return Plain(ctx, command)
	case "":
	default:
		return nil, fmt.Errorf("a program %w: no sandbox is called %s", sandbox.ErrUnable, s.Sandbox)
	}
	spec := sandbox.Spec{Command: s.Command, Args: s.Args, Env: command.Environment, Folder: command.Folder,
		Read: append(slices.Sorted(maps.Keys(s.Identity.Files)), s.Read...)}
	for _, address := range s.Network {
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, err
		}
		spec.Ports = append(spec.Ports, uint16(port))
	}
	p, err := sandbox.Start(spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}
