package telemetry

import (
	"context"

	"gantry.dev/memory/detect"
	"gantry.dev/orchestrator/run"
)

// mostText is how much of a text a span holds, in bytes.
const mostText = 16 << 10

// concealed stands where something looked like a secret or a person's number.
const concealed = "[concealed]"

// withheld stands for a text that the collector may not read.
const withheld = "[redacted]"

// content returns the texts of a run as they may stand in a trace: none unless
// that was asked for.
func (t *Tracer) content(ctx context.Context, events []run.Event) (map[string]string, error) {
	if !t.config.Content {
		return nil, nil
	}
	shown := map[string]string{}
	var open []string
	for _, event := range events {
		for _, text := range run.Words(event) {
			if shown[text.ID] = withheld; text.Marking.Labels.Within(t.config.Clearance) {
				open = append(open, text.ID)
			}
		}
	}
	payloads, err := t.journal.Payloads(ctx, open)
	if err != nil {
		return nil, err
	}
	for id, payload := range payloads {
		text := string(payload.Bytes)
		if shown[id], err = detect.Redact(text, detect.Unite(detect.Find(text)), concealed); err != nil {
			shown[id] = withheld
		}
	}
	return shown, nil
}
