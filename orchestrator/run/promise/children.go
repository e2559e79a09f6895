package promise

import "gantry.dev/orchestrator/run"

// children are what a journal says of the runs that its run started.
type children struct {
	most      bounds
	delegated map[int]bool    // calls that were proposed for an agent
	begun     int             // delegated call whose child has to come next, 0 for none
	started   map[string]int  // live runs that each takes up
	live      map[string]bool // child has not ended
	doing     map[int]string  // child by call
	runs      int             // of all live children
}

// bounds are those of the run's authority as it was admitted.
type bounds struct{ fanOut, runsAtOnce int }

// note holds what an event says of children against what came before.
func (c *children) note(event run.Event, cancelled bool) *Broken {
	e, starts := event.(run.ChildStarted)
	if c.begun != 0 && (!starts || e.Call != c.begun) {
		return broken(IntentMissing, "delegated call %d begins without a child", c.begun)
	}
	c.begun = 0
	switch e := event.(type) {
	case run.Started:
		c.most = bounds{fanOut: e.Authority.FanOut, runsAtOnce: e.Authority.RunsAtOnce}
	case run.CallProposed:
		c.delegated[e.Call] = e.Delegate != ""
	case run.CallIntended:
		if c.delegated[e.Call] {
			c.begun = e.Call
		}
	case run.CallEnded:
		if child, done := c.doing[e.Call]; done && c.live[child] {
			return broken(ChildOpen, "call %d ends before the child that does it", e.Call)
		}
	case run.ChildStarted:
		return c.start(e, cancelled)
	case run.ChildStopped:
		if !c.live[e.Child] {
			return broken(ChildTwice, "child %s is stopped and does not live", e.Child)
		}
	case run.ChildEnded:
		if !c.live[e.Child] {
			return broken(ChildTwice, "child %s ends and does not live", e.Child)
		}
		delete(c.live, e.Child)
		c.runs -= c.started[e.Child]
	}
	return nil
}

func (c *children) start(e run.ChildStarted, cancelled bool) *Broken {
	_, twice := c.started[e.Child]
	_, done := c.doing[e.Call]
	switch {
	case twice:
		return broken(ChildTwice, "child %s starts twice", e.Child)
	case cancelled:
		return broken(AfterCancel, "child %s starts after the cancel", e.Child)
	case e.Call > 0 && (!c.delegated[e.Call] || done):
		return broken(IntentMissing, "child %s starts for call %d, which asked for none", e.Child, e.Call)
	case len(c.started) >= c.most.fanOut:
		return broken(FanOut, "child %s is one more than the %d that the run may have", e.Child, c.most.fanOut)
	case e.Runs < 1 || c.runs+e.Runs > c.most.runsAtOnce:
		return broken(RunsAtOnce, "child %s takes up %d runs beside %d, of %d", e.Child, e.Runs, c.runs, c.most.runsAtOnce)
	}
	if e.Call > 0 {
		c.doing[e.Call] = e.Child
	}
	c.started[e.Child], c.live[e.Child] = e.Runs, true
	c.runs += e.Runs
	return nil
}

// check holds the state against what was counted.
func (c *children) check(s *run.State) *Broken {
	runs := 0
	for i := range s.Children {
		if child := &s.Children[i]; child.Live() {
			runs += child.Runs
		}
	}
	switch {
	case c.begun != 0:
		return broken(IntentMissing, "delegated call %d begins without a child", c.begun)
	case len(s.Children) != len(c.started) || runs != c.runs:
		return broken(ChildTwice, "%d children take up %d runs, but %d that take up %d were started", len(s.Children), runs, len(c.started), c.runs)
	}
	return nil
}
