package account

import (
	"fmt"
	"strings"

	"gantry.dev/orchestrator/run"
)

// shortened says how the prompts of a turn got shorter, if they did.
func shortened(s *run.State, turn int) (lines []string) {
	for i := range s.Compactions {
		if c := &s.Compactions[i]; c.Turn == turn {
			lines = append(lines, fmt.Sprintf("before turn %d its prompts got shorter (%s, for %s): %s", turn, c.Cause, c.Model, brief(c.Brief)))
		}
	}
	return lines
}

func brief(b run.Brief) string {
	var parts []string
	if b.Said > 0 {
		parts = append(parts, fmt.Sprintf("%d messages said before in brief", b.Said))
	}
	if b.Through > 0 {
		parts = append(parts, fmt.Sprintf("turns up to %d in brief", b.Through))
	}
	if b.Unshown > 0 {
		parts = append(parts, fmt.Sprintf("images and files of calls up to %d left out", b.Unshown))
	}
	if b.Result > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes of a result", b.Result))
	}
	return strings.Join(parts, ", ")
}

// briefAt is what the prompt of a turn showed in brief.
func briefAt(s *run.State, turn int) (b run.Brief) {
	for i := range s.Compactions {
		if s.Compactions[i].Turn <= turn {
			b = s.Compactions[i].Brief
		}
	}
	return b
}

// used says how much of the model's context a turn took up, and how much of its
// prompt the provider had kept from before.
func used(turn run.Turn) string {
	if turn.Context == nil {
		return ""
	}
	count := fmt.Sprintf("about %d", turn.Context.Tokens)
	share := ""
	if turn.Answer != nil && !turn.Answer.Usage.Estimated && turn.Answer.Usage.Prompt() > 0 {
		prompt := turn.Answer.Usage.Prompt()
		count = fmt.Sprint(prompt)
		if cached := turn.Answer.Usage.CacheRead; cached > 0 {
			share = fmt.Sprintf(", %d%% of it from the cache", cached*100/prompt)
		}
	}
	if turn.Context.Limit == 0 {
		return fmt.Sprintf("; its prompt had %s tokens%s", count, share)
	}
	return fmt.Sprintf("; its prompt had %s of %d tokens%s", count, turn.Context.Limit, share)
}
