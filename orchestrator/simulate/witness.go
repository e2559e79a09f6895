package simulate

import (
	"context"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/promise"
)

// witness saw every commit to one run, and what its people did.
type witness struct {
	tally   *promise.Tally
	intents map[[2]int]string // key by call and intent
	granted map[int]bool      // calls that everybody whose word is needed agreed to
	words   map[int]map[string]bool
	steers  map[string]bool
	ended   int
	version uint64
	digest  string

	parent           string
	links            []run.Link     // of those above it
	tools            map[int]string // by call
	live             map[string]bool
	cancelled        bool
	last             string // digest of the end
	settled, unknown run.Amount
}

func (s *simulation) witnessOf(id string) *witness {
	if s.seen[id] == nil {
		s.seen[id] = &witness{tally: promise.NewTally(), intents: map[[2]int]string{}, granted: map[int]bool{},
			words: map[int]map[string]bool{}, steers: map[string]bool{}, tools: map[int]string{}, live: map[string]bool{}}
	}
	return s.seen[id]
}

// witness counts a committed write, apart from everybody's states.
func (s *simulation) witness(write engine.Write) {
	w := s.witnessOf(write.Head.Run)
	for _, record := range write.Records {
		if record.Seq != w.version+1 || record.Prev != w.digest {
			s.violate("%s: record %d does not follow record %d", record.Run, record.Seq, w.version)
		}
		w.version, w.digest = record.Seq, record.Digest
		event, err := run.Decode(record)
		if err != nil {
			s.violate("%s: record %d: %v", record.Run, record.Seq, err)
			continue
		}
		if broken := w.tally.Note(promise.Step{Event: event, AtMs: record.AtMs, Policy: s.rules.PolicyRevision()}); broken != nil {
			s.violate("%s: %s: %s", record.Run, broken.Code, broken.Text)
		}
		s.notice(w, write, event)
		s.noticeTree(write.Head.Run, w, record, event)
	}
	s.note(w.version)
	_, _ = s.trace.Write([]byte(w.digest)) // a hash never fails
}

func (s *simulation) notice(w *witness, write engine.Write, event run.Event) {
	id := write.Head.Run
	s.kinds[event.Kind()]++
	switch e := event.(type) {
	case run.CallIntended:
		w.intents[[2]int{e.Call, e.Intent}] = e.Key
		if write.Epoch == 0 {
			s.violate("%s: call %d begins without a lease", id, e.Call)
		}
	case run.SteerAccepted:
		w.steers[e.Steer] = true
	case run.Parked:
		if e.Code != "OPERATOR" && e.Code != run.ParkedFlood {
			s.violate("%s: parked as %s", id, e.Code)
		}
	case run.CallUncertain:
		s.noticeLoss(id, e.Cause)
	case run.TurnFailed:
		s.noticeLoss(id, e.Cause)
	case run.Ended:
		if w.ended++; w.ended > 1 {
			s.violate("%s: ended twice", id)
		}
	}
}

// noticeLoss says when an attempt is lost although nothing went wrong.
func (s *simulation) noticeLoss(id, cause string) {
	if cause == run.Lost && s.faults == 0 && s.plan.leaseMs >= soundLeaseMs && s.plan.drain == 0 {
		s.violate("%s: an attempt was lost without a fault", id)
	}
}

// soundLeaseMs is how long a lease has to be so that a healthy worker never
// loses it.
const soundLeaseMs = 3_000

// meant notes that somebody agrees to a call, before they say so.
func (s *simulation) meant(id string, call int, who string) {
	w := s.witnessOf(id)
	if w.words[call] == nil {
		w.words[call] = map[string]bool{}
	}
	w.words[call][who] = true
	state, err := s.fold(id)
	if err != nil {
		return
	}
	need := 1
	if state.Call(call).Tool == "pair" {
		need = 2
	}
	w.granted[call] = len(w.words[call]) >= need
}

// cancelled looks whether an accepted cancel closed the run.
func (s *simulation) cancelled(id string) {
	if state, err := s.fold(id); err == nil && state.Cancel == nil {
		s.violate("%s: a cancel was accepted and is not there", id)
	}
}

// fold reads a run past all faults.
func (s *simulation) fold(id string) (*run.State, error) {
	_, records, err := s.store.Memory.Load(context.Background(), id, 0)
	if err != nil {
		return nil, err
	}
	state := &run.State{ID: id}
	return state, run.Replay(state, records)
}
