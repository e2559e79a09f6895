//go:build !insecure_nopolicy

// Package bounds says within which bounds the agents of an organisation work.
package bounds

import "gantry.dev/agents"

// Of is the organisation as its agents work in it: as it is configured.
func Of(o agents.Organisation) agents.Organisation { return o }
