package promise

import "gantry.dev/orchestrator/run"

// access is what a journal lets a run use: what it was admitted with, and what
// people gave it since.
type access struct {
	tools    map[string]map[string]bool // definitions by name
	calls    map[int]run.CallProposed
	requests map[string]run.AccessRequested // those that are open
}

func newAccess() access {
	return access{tools: map[string]map[string]bool{}, calls: map[int]run.CallProposed{}, requests: map[string]run.AccessRequested{}}
}

func (a access) allow(tool, definition string) {
	if a.tools[tool] == nil {
		a.tools[tool] = map[string]bool{}
	}
	a.tools[tool][definition] = true
}

// note counts the next event, of a run whose snapshot has the digest.
func (a access) note(step Step, snapshot string) *Broken {
	switch event := step.Event.(type) {
	case run.Started:
		for name, grant := range event.Authority.Tools {
			a.allow(name, grant.Revision)
		}
	case run.CallProposed:
		a.calls[event.Call] = event
	case run.CallIntended:
		if call, proposed := a.calls[event.Call]; proposed && call.Revision != "" && !a.tools[call.Tool][call.Revision] {
			return broken(AccessMissing, "call %d begins with a tool that the run was neither admitted with nor given", event.Call)
		}
	case run.AccessRequested:
		a.requests[event.Access] = event
	case run.AccessVoided:
		delete(a.requests, event.Access)
	case run.AccessDecided:
		return a.decided(event, step.AtMs, snapshot)
	}
	return nil
}

func (a access) decided(event run.AccessDecided, atMs int64, snapshot string) *Broken {
	request, open := a.requests[event.Access]
	delete(a.requests, event.Access)
	switch {
	case !open:
		return broken(AccessUnsealed, "request %s is decided and was not open", event.Access)
	case !event.Granted:
		return nil
	case !event.Sealed(snapshot, request):
		return broken(AccessUnsealed, "what request %s gave is not as it was sealed", event.Access)
	case atMs >= request.NotAfterMs:
		return broken(AccessUnsealed, "request %s was granted after it had expired", event.Access)
	}
	for name, grant := range request.Want.Gives.Tools {
		a.allow(name, grant.Revision)
	}
	return nil
}
