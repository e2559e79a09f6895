package promise

import (
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// briefs counts what a run's prompts show in brief.
type briefs struct {
	compacts bool // the run's compiler can do so
	said     []policy.Marking
	calls    map[int]int            // the turn, by call
	turns    map[int]policy.Marking // of everything that the turn said, asked for and got
	media    map[int]policy.Marking // of the images and files of a call
	answered int                    // last turn
	now      run.Brief
	model    string // of the attempt in flight
	rejected string // the model that could not take the next prompt as it is
}

// turnOf is the turn for which an event recalls something, 0 for the run's goal.
func turnOf(event run.Event) int {
	if began, is := event.(run.TurnStarted); is {
		return began.Turn
	}
	return 0
}

func (b *briefs) note(event run.Event, recalled map[[2]string]int) *Broken {
	switch e := event.(type) {
	case run.Started:
		b.compacts = e.Snapshot.Compiler >= run.CompactingCompiler
		for _, message := range e.History {
			b.said = append(b.said, message.Text.Marking)
		}
	case run.TurnStarted:
		if b.compacts && b.rejected == e.Model && e.Attempt > 1 {
			return broken(TooLongAgain, "turn %d gives %s the prompt again that it could not take", e.Turn, e.Model)
		}
		b.model, b.rejected = e.Model, ""
	case run.TurnFailed:
		if e.Cause == run.TooLong {
			b.rejected = b.model
		}
	case run.TurnAnswered:
		b.answered = e.Turn
		b.join(e.Turn, e.Text)
	case run.CallProposed:
		b.calls[e.Call] = e.Turn
		b.join(e.Turn, &e.Arguments)
	case run.CallEnded:
		b.join(b.calls[e.Call], e.Result)
		for _, m := range e.Media {
			b.join(b.calls[e.Call], &m.Text)
			b.media[e.Call] = b.media[e.Call].Join(m.Text.Marking)
		}
	case run.Compacted:
		return b.compacted(e, recalled)
	}
	return nil
}

func (b *briefs) join(turn int, text *run.Text) {
	if text != nil {
		b.turns[turn] = b.turns[turn].Join(text.Marking)
	}
}

func (b *briefs) compacted(e run.Compacted, recalled map[[2]string]int) *Broken {
	if e.Said < b.now.Said || e.Through < b.now.Through || e.Unshown < b.now.Unshown || b.answered > 0 && e.Through >= b.answered || e.Said > len(b.said) {
		return broken(BriefLonger, "the compaction for turn %d shows more than was shown, or takes the last answer", e.Turn)
	}
	var marking policy.Marking
	for _, said := range b.said[:e.Said] {
		marking = marking.Join(said)
	}
	for turn := 1; turn <= e.Through; turn++ {
		marking = marking.Join(b.turns[turn])
	}
	for call, of := range b.media {
		if call <= e.Unshown {
			marking = marking.Join(of)
		}
	}
	if !marking.Within(e.Marking) {
		return broken(BriefUnmarked, "the compaction for turn %d is marked less than what it stands for", e.Turn)
	}
	b.now, b.rejected = e.Brief, ""
	for state, turn := range recalled {
		if 0 < turn && turn <= e.Through {
			delete(recalled, state) // its place is gone: it may come to mind again
		}
	}
	return nil
}
