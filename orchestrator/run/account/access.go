package account

import (
	"fmt"
	"strings"

	"gantry.dev/orchestrator/run"
)

// accesses are what the run asked for that it might not use, and who gave it, how
// far.
func (e explainer) accesses() []string {
	var lines []string
	for i := range e.s.Accesses {
		a := &e.s.Accesses[i]
		line := fmt.Sprintf("call %d: asked for %s", a.Call, wanted(a.Want))
		switch d := a.Decision; {
		case d == nil && a.Status == run.AccessVoid:
			line += fmt.Sprintf("; the request became void: %s", a.Cause)
		case d == nil:
			line += "; nobody has decided"
		case !d.Granted:
			line += fmt.Sprintf("; %s refused it %s", speaker(d.By), e.optional(d.Reason))
		default:
			line += fmt.Sprintf("; %s consented%s (digest %.12s) %s", speaker(d.By), reach(d), a.Digest, e.optional(d.Reason))
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func wanted(w run.Want) string {
	if w.Thing == run.ThingBudget {
		return fmt.Sprintf("%d micro-dollars and %d tokens more", w.Gives.MicroUSD, w.Gives.Tokens)
	}
	return strings.ToLower(string(w.Thing)) + " " + w.Name
}

// reach says how far a yes reaches, and by which grant.
func reach(d *run.AccessDecided) string {
	switch {
	case d.Scope == run.ForConversation:
		return " for the conversation, by grant " + d.Grant
	case d.Scope == run.ForAgent:
		return fmt.Sprintf(" by grant %s, and proposed revision %.12s of the agent", d.Grant, d.Proposed)
	case d.Grant != "":
		return " by grant " + d.Grant
	}
	return ""
}

// begunWith says what people had consented to in the conversation before.
func (e explainer) begunWith() []string {
	if len(e.s.Started.Consents) == 0 {
		return nil
	}
	return []string{"has from its start what was consented to in its conversation, by " + strings.Join(e.s.Started.Consents, ", ")}
}
