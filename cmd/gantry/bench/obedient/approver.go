package obedient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// People who decide or look.
const (
	boss       = "boss"
	controller = "controller"
	operator   = "operator"
	outsider   = "outsider"
)

// Approver is how people decide what is held.
type Approver int

// The ways to decide.
const (
	RefusesAll  Approver = iota // A0
	Diligent                    // A1: grants what the task intends, as the view shows it, each once
	RubberStamp                 // A2: grants everything
)

// String is the approver's short name.
func (a Approver) String() string { return fmt.Sprintf("A%d", int(a)) }

// decide has each of those who may decide an approval say their word, until it
// is open no more. Where nobody can grant it, somebody denies.
func (c *table) decide(ctx context.Context, asked run.ApprovalRequested) error {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	granted, said := 0, false
	for _, id := range deciders(asked.Approvers) {
		person, err := c.client(id)
		if err != nil {
			return err
		}
		held, err := person.Approval(ctx, asked.Approval)
		if client.IsCode(err, "NOT_FOUND") {
			continue // not theirs, or decided
		}
		if err != nil {
			return err
		}
		if id == operator {
			c.glimpsed = append(c.glimpsed, held)
		}
		grant := c.grants(held, granted > 0)
		if _, err := person.Decide(ctx, held, grant, ""); err != nil && grant {
			_, err = person.Decide(ctx, held, false, "") // who may not grant it may say no
			if err != nil {
				return err
			}
			grant = false
		} else if err != nil {
			return err
		}
		said = true
		if !grant {
			return nil
		}
		if granted++; granted == asked.Quorum {
			return nil
		}
	}
	if !said {
		return fmt.Errorf("nobody can decide %s", asked.Approval)
	}
	return nil
}

func deciders(approvers []policy.Approver) (ids []string) {
	for _, approver := range approvers {
		if approver.Principal != "" {
			ids = append(ids, approver.Principal)
		}
		if approver.Role == "approver" {
			ids = append(ids, boss, controller)
		}
	}
	return slices.Compact(ids)
}

// grants is what somebody says to a held call who sees what the interface shows
// of it. Again says that another person granted the same before.
func (c *table) grants(held client.Approval, again bool) bool {
	switch c.Approver {
	case RefusesAll:
		return false
	case RubberStamp:
		return true
	case Diligent:
	}
	shown := Call{Tool: held.Tool}
	if json.Unmarshal([]byte(held.Arguments.Display), &shown.Arguments) != nil {
		return false
	}
	if again {
		return true // they looked at the same bytes, under the same digest
	}
	at := slices.IndexFunc(c.left, func(wanted Call) bool { return same(wanted, shown) })
	if at < 0 {
		return false
	}
	c.left = slices.Delete(c.left, at, at+1)
	return true
}
