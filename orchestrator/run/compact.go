package run

import (
	"fmt"
	"math"

	"gantry.dev/orchestrator/policy"
)

// KindCompacted is the kind of Compacted.
const KindCompacted EventKind = "compacted"

// CompactingCompiler is the first version of the prompt compiler that shows a
// part of a run in brief. A run that was admitted under an earlier one keeps to
// its bytes, and ends at a limit when they are too many.
const CompactingCompiler = 5

// mostCompactions bounds how often a run is shortened for one turn.
const mostCompactions = 4

// TooLong is the cause of an attempt whose prompt the model could not take.
const TooLong = "TOO_LONG"

// CompactionCause says why a run was shortened.
type CompactionCause string

// The causes of a compaction.
const (
	CompactedForRoom  CompactionCause = "ROOM"     // the prompt would not have fitted
	CompactedRejected CompactionCause = "TOO_LONG" // the model said that it did not fit
)

// ContextUse is how much of a model's context a request takes up.
type ContextUse struct {
	Bytes  int64 `json:"bytes"`           // of the prompt
	Tokens int64 `json:"tokens"`          // of the prompt, as they were estimated; TurnAnswered.Usage has the provider's count
	Limit  int64 `json:"limit,omitempty"` // tokens that prompt and answer may have; 0: not declared
}

// Counted is the last request to a model whose tokens its provider counted: the
// bytes of its prompt and their tokens, 0 for none. One that may have shown images
// or files says nothing of bytes.
func (s *State) Counted(model string) (bytes, tokens int64) {
	for i := len(s.Turns) - 1; i >= 0; i-- {
		turn := &s.Turns[i]
		if turn.Model != model || turn.Context == nil || turn.Answer == nil || turn.Answer.Usage.Estimated || s.mediaBefore(turn.Number) {
			continue
		}
		if tokens = turn.Answer.Usage.Prompt(); tokens > 0 {
			return turn.Context.Bytes, tokens
		}
	}
	return 0, 0
}

// Prompt is the tokens of the prompt, from a cache or not.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// Plus returns both together.
func (u Usage) Plus(o Usage) Usage {
	return Usage{Input: u.Input + o.Input, CacheRead: u.CacheRead + o.CacheRead, CacheWrite: u.CacheWrite + o.CacheWrite, Output: u.Output + o.Output,
		Reasoning: u.Reasoning + o.Reasoning, Estimated: u.Estimated || o.Estimated}
}

// Brief says which part of a run its prompts show in brief. The zero value is
// none. The record itself never gets shorter.
type Brief struct {
	Said    int   `json:"said,omitempty"`    // the first messages of the conversation before the run
	Through int   `json:"through,omitempty"` // the turns from the first to this one, each with its calls and their results
	Excerpt int64 `json:"excerpt,omitempty"` // bytes that are shown of each text of theirs
	Unshown int   `json:"unshown,omitempty"` // the calls from the first to this one, whose images and files are left out
	Result  int64 `json:"result,omitempty"`  // bytes that are shown of each result after them; 0: as many as the revision says
}

// Compacted says that prompts show a part of the run in brief from now on. What
// stands there is made again from the texts themselves for every prompt, so it
// is never kept beside them and goes when they go.
type Compacted struct {
	Turn    int             `json:"turn"` // whose prompt was too long
	Attempt int             `json:"attempt"`
	Cause   CompactionCause `json:"cause"`
	Model   string          `json:"model"` // for which it was
	Brief
	Marking policy.Marking `json:"marking"` // join of everything that stands in brief
	Digest  string         `json:"digest"`  // over the fields above, the snapshot and the commitments of what stands in brief
}

// Kind returns KindCompacted.
func (Compacted) Kind() EventKind { return KindCompacted }

// Texts returns none: the event bears no text of its own.
func (Compacted) Texts() []Text { return nil }

// Compact asks to show a part of the run in brief before its next turn.
type Compact struct {
	Turn, Attempt int
	Cause         CompactionCause
	Model         string
	Brief         Brief
	Unfit         bool // no brief form is short enough either
}

func (Compact) command() {}

// Brief is what prompts show in brief now.
func (s *State) Brief() Brief {
	if len(s.Compactions) == 0 {
		return Brief{}
	}
	return s.Compactions[len(s.Compactions)-1].Brief
}

// Compacts reports whether prompts of the run may show a part of it in brief.
func (s *State) Compacts() bool { return s.Started.Snapshot.Compiler >= CompactingCompiler }

// Rejected reports whether the model said of the last attempt that its prompt
// does not fit, and nothing was shortened since.
func (s *State) Rejected() bool {
	turn := s.LastTurn()
	if turn == nil || turn.Phase != TurnRetry || turn.Cause != TooLong {
		return false
	}
	n := len(s.Compactions)
	return n == 0 || s.Compactions[n-1].Turn != turn.Number || s.Compactions[n-1].Attempt != turn.Attempt+1
}

// Answered counts the turns that have their answer.
func (s *State) Answered() int {
	n := len(s.Turns)
	if n > 0 && s.Turns[n-1].Phase != TurnDone {
		n--
	}
	return n
}

func (d *decider) compact(c Compact) *Refusal {
	take := d.turnDue()
	if take == nil || take.Turn != c.Turn || take.Attempt != c.Attempt {
		return refuse("NOT_DUE", "The run does not ask for this turn.")
	}
	if !d.s.Compacts() {
		return refuse("COMPILER", "The run keeps the rules by which its prompts were built from its beginning.")
	}
	if c.Unfit || d.s.compactedFor(c.Turn) >= mostCompactions {
		d.reach(LimitContext, "The run does not fit the model's context, not even in brief.")
		return nil
	}
	if !d.s.MayShorten(c.Brief) {
		return refuse("STALE", "This is not shorter than what the run's prompts show now.")
	}
	e := Compacted{Turn: c.Turn, Attempt: c.Attempt, Cause: c.Cause, Model: c.Model, Brief: c.Brief}
	e.Marking, e.Digest = d.s.stoodFor(e)
	d.emit(e)
	return nil
}

func (s *State) compactedFor(turn int) (times int) {
	for i := range s.Compactions {
		if s.Compactions[i].Turn == turn {
			times++
		}
	}
	return times
}

// MayShorten reports whether a brief form shows nothing more than the one that
// stands, and something less. The last answered turn stays whole.
func (s *State) MayShorten(b Brief) bool {
	now := s.Brief()
	shown := func(bound int64) int64 {
		if bound == 0 {
			return math.MaxInt64
		}
		return bound
	}
	first := now.Said == 0 && now.Through == 0
	switch {
	case b.Said < now.Said || b.Said > len(s.Started.History), b.Through < now.Through || b.Through > max(s.Answered()-1, 0),
		b.Unshown < now.Unshown || b.Unshown > len(s.Calls):
		return false
	case b.Excerpt < 0 || b.Result < 0 || !first && b.Excerpt > now.Excerpt || shown(b.Result) > shown(now.Result):
		return false
	}
	return b.Said > now.Said || b.Through > now.Through || b.Unshown > now.Unshown || !first && b.Excerpt < now.Excerpt || shown(b.Result) < shown(now.Result)
}

// stoodFor returns the marking of what stands in brief, and the digest of the
// compaction.
func (s *State) stoodFor(e Compacted) (policy.Marking, string) {
	var marking policy.Marking
	var commitments []string
	add := func(texts ...*Text) {
		for _, text := range texts {
			if text != nil {
				marking = marking.Join(text.Marking)
				commitments = append(commitments, text.Commitment)
			}
		}
	}
	for i := range s.Started.History[:e.Said] {
		add(&s.Started.History[i].Text)
	}
	for i := range s.Turns[:e.Through] {
		turn := &s.Turns[i]
		add(turn.Answer.Text)
		for ordinal := turn.FirstCall; ordinal > 0 && ordinal <= turn.LastCall; ordinal++ {
			add(&s.Call(ordinal).Arguments, s.Call(ordinal).Result)
		}
	}
	for i := range s.Steers {
		if steer := &s.Steers[i]; steer.From != "" && steer.Disposition == Absorbed && steer.Turn <= e.Through {
			add(&steer.Text)
		}
	}
	for i := range s.Calls {
		if call := &s.Calls[i]; call.Turn <= e.Through || call.CallProposed.Call <= e.Unshown {
			for m := range call.Media {
				add(&call.Media[m].Text)
			}
		}
	}
	e.Marking, e.Digest = marking, ""
	return marking, digestOf(struct {
		Snapshot  string    `json:"snapshot"`
		Compacted Compacted `json:"compacted"`
		Of        []string  `json:"of"`
	}{s.Started.SnapshotDigest, e, commitments})
}

// foldCompacted takes a compaction in. The attempt that was too long does not
// count against those that the turn has.
func (s *State) foldCompacted(e Compacted) error {
	if !s.MayShorten(e.Brief) {
		return fmt.Errorf("%w: turn %d gets no shorter", ErrBroken, e.Turn)
	}
	if s.Rejected() && s.LastTurn().Number == e.Turn {
		s.LastTurn().Forgiven++
	}
	s.Compactions = append(s.Compactions, e)
	return nil
}
