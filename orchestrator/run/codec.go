package run

import (
	"encoding/json"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/canon"
)

// ErrUnknownRecord means that a record's type or version is not known to this
// program. The run is parked; nothing is skipped.
var ErrUnknownRecord = errors.New("unknown record")

// ErrChain means that a record does not continue the chain.
var ErrChain = errors.New("broken chain")

// form is how one kind of event is read: its current version, the upcasters
// from each earlier version to the next, and the decoder.
type form struct {
	version int
	upcast  map[int]func(json.RawMessage) (json.RawMessage, error)
	decode  func([]byte) (Event, error)
}

func formOf[E Event]() form {
	return form{version: 1, decode: func(body []byte) (Event, error) {
		var event E
		return event, canon.Unmarshal(body, &event)
	}}
}

// widened is the form of a kind that has had a version with fewer fields: what
// is not there means what the zero value of its field means.
func widened[E Event](version int) form {
	f := formOf[E]()
	f.version, f.upcast = version, map[int]func(json.RawMessage) (json.RawMessage, error){}
	for earlier := 1; earlier < version; earlier++ {
		f.upcast[earlier] = func(body json.RawMessage) (json.RawMessage, error) { return body, nil }
	}
	return f
}

var forms = map[EventKind]form{
	KindStarted: widened[Started](4), KindTurnStarted: widened[TurnStarted](5), // 2: memory; 3: trees, of a turn the context; 4: how often it may ask, of a turn the offers; 5: of a turn the hedge
	KindTurnAnswered: widened[TurnAnswered](3), // 2: thread; of a call's end the media, of a compaction the calls whose media are left out; 3: what became of two requests
	KindTurnFailed:   widened[TurnFailed](3), KindModelsOut: formOf[ModelsOut](), KindCallProposed: widened[CallProposed](3), KindCallJudged: formOf[CallJudged](),
	KindApprovalRequested: formOf[ApprovalRequested](), KindApprovalDecided: formOf[ApprovalDecided](),
	KindApprovalVoided: formOf[ApprovalVoided](), KindQuestionAsked: widened[QuestionAsked](2),
	KindQuestionAnswered: widened[QuestionAnswered](2), KindQuestionVoided: widened[QuestionVoided](2),
	KindCallIntended: formOf[CallIntended](), KindCallEnded: widened[CallEnded](2), KindCallUncertain: formOf[CallUncertain](),
	KindUncertainResolved: formOf[UncertainResolved](), KindLateOutcome: formOf[LateOutcome](),
	KindSteerAccepted: widened[SteerAccepted](2), KindSteerSettled: formOf[SteerSettled](), KindCancelAccepted: formOf[CancelAccepted](),
	KindLimitReached: formOf[LimitReached](), KindLimitRaised: formOf[LimitRaised](), KindVerified: widened[Verified](2),
	KindChildStarted: formOf[ChildStarted](), KindChildStopped: formOf[ChildStopped](), KindChildEnded: formOf[ChildEnded](),
	KindReviewDeclined: formOf[ReviewDeclined](), KindSidecarStarted: formOf[SidecarStarted](),
	KindAccessRequested: formOf[AccessRequested](), KindAccessDecided: formOf[AccessDecided](), KindAccessVoided: formOf[AccessVoided](),
	KindCompacted: widened[Compacted](2), KindEnded: formOf[Ended](), KindParked: formOf[Parked](), KindResumed: formOf[Resumed](),
}

// Encode makes the record of an event that follows prev at the given time. The
// zero Record stands for none before.
func Encode(run string, prev Record, atMs int64, event Event) (Record, error) {
	body, err := canon.Marshal(event)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", event.Kind(), err)
	}
	r := Record{Run: run, Seq: prev.Seq + 1, Kind: event.Kind(), Version: forms[event.Kind()].version, AtMs: atMs, Body: body, Prev: prev.Digest}
	r.Digest = Chain(r)
	return r, nil
}

// Decode reads an event, upcasting older versions. Errors: ErrUnknownRecord.
func Decode(r Record) (Event, error) {
	form, known := forms[r.Kind]
	if !known || r.Version < 1 || r.Version > form.version {
		return nil, fmt.Errorf("%w: %s version %d", ErrUnknownRecord, r.Kind, r.Version)
	}
	body := json.RawMessage(r.Body)
	for version := r.Version; version < form.version; version++ {
		raise, known := form.upcast[version]
		if !known {
			return nil, fmt.Errorf("%w: nothing raises %s from version %d", ErrUnknownRecord, r.Kind, version)
		}
		raised, err := raise(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s version %d cannot be raised", ErrUnknownRecord, r.Kind, version)
		}
		body = raised
	}
	event, err := form.decode(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be read", ErrUnknownRecord, r.Kind)
	}
	return event, nil
}

// Replay folds records into the state, checking that each continues the chain.
// Errors: ErrChain, ErrUnknownRecord, ErrBroken.
func Replay(s *State, records []Record) error {
	for _, r := range records {
		if r.Run != s.ID || r.Seq != s.Version+1 || r.Prev != s.Head || r.Digest != Chain(r) {
			return fmt.Errorf("%w at record %d", ErrChain, r.Seq)
		}
		event, err := Decode(r)
		if err != nil {
			return err
		}
		if err := Apply(s, event); err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		s.Head = r.Digest
	}
	return nil
}
