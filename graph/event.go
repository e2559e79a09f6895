package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// Events lists the events of a run.
func (r runs) Events(ctx context.Context, obj *generated.Run, first int, after *string) (*generated.RunEventConnection, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := opaque.CheckFirst(first); err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(obj.ID, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	from, err := opaque.ReadPosition(after, parts[0])
	if err != nil {
		return nil, err
	}
	records, err := r.config.Runs.Events(ctx, caller, parts[0], from)
	if err != nil {
		return nil, err
	}
	more := len(records) > first
	records = records[:min(first, len(records))]
	events, err := r.events(ctx, caller, records)
	if err != nil {
		return nil, err
	}
	out := &generated.RunEventConnection{Edges: []*generated.RunEventEdge{}}
	var cursors []string
	for _, event := range events {
		cursors = append(cursors, event.Cursor)
		out.Edges = append(out.Edges, &generated.RunEventEdge{Cursor: event.Cursor, Node: event})
	}
	out.PageInfo = pageInfo(cursors, more)
	return out, nil
}

// Audit returns a run's journal and whether it holds together.
func (r queries) Audit(ctx context.Context, id string) (*generated.Audit, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	records, err := r.config.Runs.Events(ctx, caller, parts[0], 0)
	if err != nil {
		return nil, err
	}
	events, err := r.events(ctx, caller, records)
	if err != nil {
		return nil, err
	}
	out := &generated.Audit{Run: id, Records: []*generated.AuditRecord{}, Verified: true}
	state := &run.State{ID: parts[0]}
	for i, record := range records {
		if out.Verified && run.Replay(state, records[i:i+1]) != nil {
			broken := int64(record.Seq)
			out.Verified, out.BrokenAt = false, &broken
		}
		out.Head = record.Digest
		out.Records = append(out.Records, &generated.AuditRecord{Seq: int64(record.Seq), Kind: string(record.Kind), Version: record.Version,
			At: at(record.AtMs), Previous: maybe(record.Prev), Digest: record.Digest, Event: events[i].Event})
	}
	return out, nil
}

// Export writes the journal as it stands. It cannot be redacted and still be
// checked, so whoever may not know all its labels does not get it.
func (r runs) Export(ctx context.Context, obj *generated.Run) (string, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return "", err
	}
	parts, err := opaque.ReadID(obj.ID, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return "", err
	}
	records, err := r.config.Runs.Events(ctx, caller, parts[0], 0)
	if err != nil {
		return "", err
	}
	for _, record := range records {
		var body any
		if err := json.Unmarshal(record.Body, &body); err != nil {
			return "", err
		}
		if !mayKnow(caller, "", body) {
			return "", errNotCleared
		}
	}
	var out strings.Builder
	err = account.Export(&out, records)
	return out.String(), err
}

// mayKnow reports whether the caller is cleared for every label in a value.
func mayKnow(caller Caller, field string, value any) bool {
	switch value := value.(type) {
	case []any:
		return !slices.ContainsFunc(value, func(part any) bool {
			if label, ok := part.(string); ok && labelFields[field] {
				return !caller.Principal.Clearance.Has(policy.Label(label))
			}
			return !mayKnow(caller, "", part)
		})
	case map[string]any:
		for name, part := range value {
			if !mayKnow(caller, name, part) {
				return false
			}
		}
	}
	return true
}

// events maps records for a caller, opening all their texts at once.
func (r root) events(ctx context.Context, caller Caller, records []run.Record) ([]*generated.RunEvent, error) {
	decoded := make([]run.Event, len(records))
	var texts []run.Text
	for i, record := range records {
		event, err := run.Decode(record)
		if err != nil {
			continue // shown without its body: nothing unknown is passed on
		}
		decoded[i] = event
		texts = append(texts, run.Words(event)...)
	}
	v, err := newViewer(ctx, r.config, caller, texts)
	if err != nil {
		return nil, err
	}
	out := make([]*generated.RunEvent, 0, len(records))
	for i, record := range records {
		body, err := v.eventBody(decoded[i])
		if err != nil {
			return nil, err
		}
		out = append(out, &generated.RunEvent{Cursor: opaque.Position(record.Run, record.Seq), Run: v.id(opaque.Run, record.Run), Seq: int64(record.Seq), Kind: string(record.Kind),
			At: at(record.AtMs), Summary: account.Summary(record.Kind), Event: body})
	}
	return out, nil
}

// eventBody writes an event with its texts in place of their references, or
// what stands for them, and without labels that the caller may not know of.
func (v *viewer) eventBody(event run.Event) (json.RawMessage, error) {
	if event == nil {
		return json.RawMessage("null"), nil
	}
	raw, err := canon.Marshal(event)
	if err != nil {
		return nil, err
	}
	var body any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		return nil, err
	}
	texts := map[string]run.Text{}
	for _, text := range event.Texts() {
		texts[text.ID] = text
	}
	shown, err := json.Marshal(v.redact("", body, texts))
	return shown, err
}

// labelFields hold sets of labels, wherever in an event they stand.
var labelFields = map[string]bool{"labels": true, "clearance": true}

// credentialFields say nothing to a reader and are nobody else's.
var credentialFields = map[string]bool{"tokenId": true}

func (v *viewer) redact(field string, value any, texts map[string]run.Text) any {
	switch value := value.(type) {
	case []any:
		if labelFields[field] {
			return v.redactLabels(value)
		}
		out := make([]any, 0, len(value))
		for _, part := range value {
			out = append(out, v.redact("", part, texts))
		}
		return out
	case map[string]any:
		if text, is := textOf(value, texts); is {
			if field == "arguments" {
				return v.exact(text)
			}
			return v.text(text)
		}
		if _, isMedia := value["mediaType"]; isMedia {
			return v.mediaBody(value, texts)
		}
		out := map[string]any{}
		for name, part := range value {
			if !credentialFields[name] {
				out[name] = v.redact(name, part, texts)
			}
		}
		if _, isIdentity := value["tokenId"]; isIdentity {
			delete(out, "digest")
		}
		return out
	}
	return value
}

func (v *viewer) redactLabels(labels []any) []any {
	known := []any{}
	for _, label := range labels {
		if name, ok := label.(string); ok && v.caller.Principal.Clearance.Has(policy.Label(name)) {
			known = append(known, name)
		}
	}
	return known
}

// textOf recognises a reference to a text. What looks like one but is none of
// the event's own is withheld as well.
func textOf(value map[string]any, texts map[string]run.Text) (run.Text, bool) {
	if _, commits := value["commitment"]; !commits {
		return run.Text{}, false
	}
	id, _ := value["id"].(string)
	return texts[id], true
}

// treeEvents follows a run with all below it. Each event has the places in all
// runs that are told with it as its cursor.
func (r subscriptions) treeEvents(ctx context.Context, w *watch, top string, after *string) (<-chan *generated.RunEvent, error) {
	told, err := opaque.ReadPlaces(after, top)
	if err != nil {
		return nil, err
	}
	source, err := r.config.Trees.Follow(ctx, w.caller, top, told)
	if err != nil {
		return nil, err
	}
	show := func(record run.Record) (*generated.RunEvent, error) {
		events, err := r.events(ctx, w.caller, []run.Record{record})
		if err != nil {
			return nil, err
		}
		told.Tell(record.Run, record.Seq)
		events[0].Cursor = told.Cursor()
		return events[0], nil
	}
	return stream(ctx, w, source, show, func() error { return resync(told.Cursor()) }), nil
}

// Media opens the images and files that a call of a run gave. They are opened
// for nobody who does not ask for them.
func (r runs) Media(ctx context.Context, obj *generated.Run, call int) ([]*generated.Media, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	of := state.Call(call)
	if of == nil {
		return []*generated.Media{}, nil
	}
	if v, err = newViewer(ctx, r.config, v.caller, each(of.Media, func(m run.Media) run.Text { return m.Text })); err != nil {
		return nil, err
	}
	out := make([]*generated.Media, 0, len(of.Media))
	for i, m := range of.Media {
		one := &generated.Media{Number: i + 1, Content: v.text(m.Text)}
		if len(one.Content.Withheld) == 0 {
			one.Content.Display = fmt.Sprintf("[%s, %d bytes]", m.MediaType, m.Bytes)
		}
		if v.caller.Principal.Sees(m.Text.Marking.Labels) {
			one.MediaType, one.Size = &m.MediaType, &m.Bytes
		}
		out = append(out, one)
	}
	return out, nil
}

// mediaBody is an image or a file as an event shows it: what it is, and never
// its bytes.
func (v *viewer) mediaBody(value map[string]any, texts map[string]run.Text) any {
	ref, _ := value["text"].(map[string]any)
	text, is := textOf(ref, texts)
	if !is || !v.caller.Principal.Sees(text.Marking.Labels) {
		return &generated.Withheld{Reason: generated.WithheldReasonNotCleared}
	}
	return map[string]any{"mediaType": value["mediaType"], "bytes": value["bytes"],
		"labels": v.labels(text.Marking.Labels), "integrity": text.Marking.Integrity.String()}
}
