package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const mediaQuery = `query($id:ID!){run(id:$id){media(call:1){number mediaType size content{value display withheld{reason} labels integrity}}
 none:media(call:7){number} calls{result{value}} events(first:50){edges{node{kind event}}}}}`

// An image is a download for who may see it, described wherever else it stands,
// and nothing at all to anybody else.
func TestAnImageIsGivenToWhoMaySeeItAndDescribedOtherwise(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	picture := run.Media{Text: run.Text{ID: "picture", Commitment: "c of picture", Size: 8, Subject: "anna", Marking: policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}},
		MediaType: "image/png", Bytes: 5}
	s.texts["picture"] = "aW1hZ2U="
	last := s.records[len(s.records)-1]
	record, err := run.Encode("r1", last, last.AtMs, run.CallEnded{Call: 1, Outcome: run.OutcomeDenied, Media: []run.Media{picture}})
	require.NoError(t, err)
	s.records = append(s.records, record)

	own := s.ask(t, "anna", mediaQuery, map[string]any{"id": id})
	require.Empty(t, own.Errors, own.raw)
	require.Equal(t, []any{map[string]any{"number": 1.0, "mediaType": "image/png", "size": 5.0, "content": map[string]any{"value": "aW1hZ2U=",
		"display": "[image/png, 5 bytes]", "withheld": []any{}, "labels": []any{"hr"}, "integrity": "UNTRUSTED"}}}, own.Data["run"].(map[string]any)["media"])
	require.Contains(t, own.raw, `"media":[{"bytes":5,"integrity":"UNTRUSTED","labels":["hr"],"mediaType":"image/png"}]`, "an event says what it is")
	require.Empty(t, own.Data["run"].(map[string]any)["none"])

	others := s.ask(t, "bob", mediaQuery, map[string]any{"id": id})
	require.Empty(t, others.Errors, others.raw)
	require.Contains(t, others.raw, `"mediaType":null,"size":null,"content":{"value":"[redacted]","display":"[redacted]","withheld":[{"reason":"NOT_CLEARED"}]`)
	for _, hidden := range []string{"aW1hZ2U", "image/png", `"hr"`, `"bytes":5`} {
		require.NotContains(t, others.raw, hidden)
	}
	delete(s.texts, "picture")
	gone := s.ask(t, "anna", mediaQuery, map[string]any{"id": id})
	require.Contains(t, gone.raw, `"withheld":[{"reason":"ERASED"}]`)
}
