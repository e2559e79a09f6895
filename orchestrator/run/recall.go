package run

import "gantry.dev/orchestrator/policy"

// Recalled is one remembered item as a run recalled it: which, and in which
// state, never its text. A prompt renders it again, for who reads it then.
type Recalled struct {
	Item    string         `json:"item"`    // id
	Space   string         `json:"space"`   // where it is remembered
	Etag    string         `json:"etag"`    // the state in which the run's reader saw it
	Digest  string         `json:"digest"`  // of what that reader saw, keyed with the run's own key; see Fingerprint
	Marking policy.Marking `json:"marking"` // of what that reader saw
}

// RecallCause says why a run asked memory again after its admission.
type RecallCause string

// The causes of a recall.
const (
	RecallGoal RecallCause = "GOAL" // at admission memory could not be asked, or not whole
	RecallNews RecallCause = "NEWS" // text entered the run since its last turn
)

// MemoryOut stands for the whole of memory among the parts that could not be
// asked.
const MemoryOut = "MEMORY"

// Remembrance is what one recall after the admission came to: a sealed
// amendment of the run's inputs.
type Remembrance struct {
	Cause     RecallCause `json:"cause"`
	Items     []Recalled  `json:"items,omitempty"`   // most relevant first
	Missing   []string    `json:"missing,omitempty"` // parts of memory that could not be asked; MemoryOut for all
	Amendment string      `json:"amendment"`         // digest over the fields above and the snapshot
}

// sealed gives what of the remembrance is recorded, nil where it says nothing.
func (r *Remembrance) sealed(snapshot string) *Remembrance {
	if r == nil || len(r.Items) == 0 && len(r.Missing) == 0 {
		return nil
	}
	whole := *r
	whole.Amendment = r.seal(snapshot)
	return &whole
}

// Sealed reports whether the remembrance is as it was sealed, to the run whose
// snapshot has the digest.
func (r Remembrance) Sealed(snapshot string) bool { return r.Amendment == r.seal(snapshot) }

func (r Remembrance) seal(snapshot string) string {
	r.Amendment = ""
	return digestOf(struct {
		Snapshot    string      `json:"snapshot"`
		Remembrance Remembrance `json:"remembrance"`
	}{snapshot, r})
}

// Recalled lists everything that the run recalled by itself, in the order in
// which it did. Its place there is the item's mark in prompts, from 1.
func (s *State) Recalled() []Recalled {
	all := append([]Recalled(nil), s.Started.Snapshot.Memory...)
	for i := range s.Turns {
		for _, remembrance := range s.Turns[i].Memory {
			all = append(all, remembrance.Items...)
		}
	}
	return all
}

// Known lists what of that stands in the run's prompts: what was recalled for a
// turn that is shown in brief does not, and may be recalled again.
func (s *State) Known() []Recalled {
	all := append([]Recalled(nil), s.Started.Snapshot.Memory...)
	for i := s.Brief().Through; i < len(s.Turns); i++ {
		for _, remembrance := range s.Turns[i].Memory {
			all = append(all, remembrance.Items...)
		}
	}
	return all
}

// GoalAsked reports whether all of memory was asked about the goal.
func (s *State) GoalAsked() bool {
	if len(s.Started.Snapshot.MemoryMissing) == 0 {
		return true
	}
	for i := range s.Turns {
		for _, remembrance := range s.Turns[i].Memory {
			if remembrance.Cause == RecallGoal && len(remembrance.Missing) == 0 {
				return true
			}
		}
	}
	return false
}

// Recalls returns what an event says was recalled.
func Recalls(event Event) []Recalled {
	switch e := event.(type) {
	case Started:
		return e.Snapshot.Memory
	case TurnStarted:
		if e.Memory != nil {
			return e.Memory.Items
		}
	}
	return nil
}

// mayRecall reports whether each of the items is new to the run and within
// what the labels allow.
func (s *State) mayRecall(items []Recalled, labels policy.Labels) bool {
	if len(items) == 0 {
		return true
	}
	type state struct{ item, etag string }
	known := map[state]bool{}
	for _, recalled := range s.Known() {
		known[state{recalled.Item, recalled.Etag}] = true
	}
	for _, recalled := range items {
		if known[state{recalled.Item, recalled.Etag}] || !recalled.Marking.Labels.Within(labels) {
			return false
		}
		known[state{recalled.Item, recalled.Etag}] = true
	}
	return true
}
