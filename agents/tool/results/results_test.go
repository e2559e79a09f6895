package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/results"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// book is the run "r" with what its calls gave.
type book struct {
	calls []run.Call
	texts map[string]watch.Text
	out   bool
}

func (b *book) State(_ context.Context, id string) (*run.State, error) {
	if b.out || id != "r" {
		return nil, errors.New("no line")
	}
	return &run.State{ID: "r", Calls: b.calls}, nil
}

func (b *book) Texts(_ context.Context, ids []string) (map[string]watch.Text, error) {
	opened := map[string]watch.Text{}
	for _, id := range ids {
		if text, there := b.texts[id]; there {
			opened[id] = text
		}
	}
	return opened, nil
}

func (b *book) gave(tool, text string, marking policy.Marking, items ...string) {
	if b.texts == nil {
		b.texts = map[string]watch.Text{}
	}
	id := "text " + tool
	b.texts[id] = watch.Text{Bytes: []byte(text), Items: items}
	call := run.Call{Outcome: run.OutcomeOK, Result: &run.Text{ID: id, Marking: marking}}
	call.Tool = tool
	b.calls = append(b.calls, call)
}

func (b *book) read(t *testing.T, arguments string, clearance ...policy.Label) (results.Part, tool.Result, error) {
	t.Helper()
	labels := policy.NewLabels(clearance...)
	result, err := results.New(b, "olga", "carl").Invoke(t.Context(), tool.Invocation{Run: "r", Arguments: []byte(arguments),
		Subject: policy.Principal{ID: "ada", Clearance: labels}, Reader: view.Reader{Clearance: labels}})
	var part results.Part
	if err == nil {
		require.NoError(t, json.Unmarshal(result.Content, &part))
	}
	return part, result, err
}

func code(t *testing.T, err error) string {
	t.Helper()
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	require.NotEmpty(t, failure.Detail)
	require.False(t, failure.Uncertain, "to read changes nothing")
	return failure.Code
}

// Read on and on, a result comes back whole, byte for byte.
func TestAResultIsReadInParts(t *testing.T) {
	whole := strings.Repeat("straße → ", 5_000)
	b := &book{}
	b.gave("things.read", whole, policy.Marking{})
	for _, length := range []string{"", `,"length":1`, `,"length":777`, `,"length":16384`} {
		if length == `,"length":1` && testing.Short() {
			continue
		}
		var got strings.Builder
		offset := 0
		for got.Len() < min(len(whole), 3_000) || length != `,"length":1` {
			part, _, err := b.read(t, `{"result":"c1","offset":`+jsonOf(offset)+length+`}`)
			require.NoError(t, err)
			require.Equal(t, offset, part.Offset)
			require.Equal(t, len(whole), part.Bytes)
			require.LessOrEqual(t, len(part.Text), 16<<10)
			got.WriteString(part.Text)
			if offset = part.Next; offset == 0 {
				break
			}
		}
		require.True(t, strings.HasPrefix(whole, got.String()))
		if length != `,"length":1` {
			require.Equal(t, whole, got.String())
		}
	}
	part, _, err := b.read(t, `{"result":"c1","offset":999999}`)
	require.NoError(t, err)
	require.Empty(t, part.Text)
	require.Zero(t, part.Next)
}

func jsonOf(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

func TestAResultIsSearchedAndPointedInto(t *testing.T) {
	b := &book{}
	b.gave("a", strings.Repeat("x", 500)+"Rome"+strings.Repeat("y", 500)+"Rome", policy.Marking{})
	b.gave("b", `{"list":[{"name":"é","n":12345678901234567890}],"a/b":true}`, policy.Marking{})
	b.gave("c", strings.Repeat("z ", 30), policy.Marking{})
	part, _, err := b.read(t, `{"result":"c1","search":"Rome"}`)
	require.NoError(t, err)
	require.Equal(t, []int{500, 1004}, []int{part.Matches[0].Offset, part.Matches[1].Offset})
	require.Contains(t, part.Matches[0].Text, "xRomey")
	part, _, err = b.read(t, `{"result":"c1","search":"Rome","offset":501}`)
	require.NoError(t, err)
	require.Len(t, part.Matches, 1)
	part, _, err = b.read(t, `{"result":"c3","search":"z"}`)
	require.NoError(t, err)
	require.Len(t, part.Matches, 20)
	require.Equal(t, 40, part.Next)
	part, _, err = b.read(t, `{"result":"c2","pointer":"/list/0"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"é","n":12345678901234567890}`, part.Text)
	require.Contains(t, part.Text, "12345678901234567890", "digits stay as they are")
	part, _, err = b.read(t, `{"result":"c2","pointer":"/list","length":12}`)
	require.NoError(t, err)
	require.Equal(t, `[{"n":123456…`, part.Text)
	for arguments, want := range map[string]string{
		`{"result":"c1","pointer":"/list"}`:              results.FailedNoJSON,
		`{"result":"c2","pointer":"/none"}`:              results.FailedPointer,
		`{"result":"c2","pointer":"list"}`:               results.FailedPointer,
		`{"result":"c2","pointer":"/list","search":"a"}`: results.FailedOneWay,
		`{"result":"c2","pointer":"/list","offset":1}`:   results.FailedOneWay,
		`{"result":"c0"}`:                                tool.FailedError,
		`{"result":"3"}`:                                 tool.FailedError,
	} {
		_, _, err := b.read(t, arguments)
		require.Equal(t, want, code(t, err), arguments)
	}
}

// Only what the run itself was given, and may still read, is there. Nobody is
// told whether it is absent, erased or forbidden.
func TestFault_K10_AResultIsReadUnderItsOwnLabels(t *testing.T) {
	b := &book{}
	secret := policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}
	b.gave("a", "secret", secret, "item")
	b.gave("b", "gone", policy.Marking{})
	b.gave(tool.RecallName, "remembered", policy.Marking{})
	b.calls = append(b.calls, run.Call{})
	delete(b.texts, "text b")
	var told []string
	for _, id := range []string{"c1", "c2", "c4", "c5", "c999999999"} {
		_, _, err := b.read(t, `{"result":"`+id+`"}`)
		require.Equal(t, results.FailedNoResult, code(t, err))
		told = append(told, strings.ReplaceAll(err.Error(), id, "it"))
	}
	for _, words := range told {
		require.Equal(t, told[0], words)
	}
	_, _, err := b.read(t, `{"result":"c3"}`)
	require.Equal(t, results.FailedRemember, code(t, err))
	part, result, err := b.read(t, `{"result":"c1"}`, "hr")
	require.NoError(t, err)
	require.Equal(t, "secret", part.Text)
	require.Equal(t, secret, result.Marking, "it keeps its labels and its integrity")
	require.Equal(t, []string{"item"}, result.Items, "and goes with the item that it quotes")
	b.out = true
	_, _, err = b.read(t, `{"result":"c1"}`, "hr")
	require.Equal(t, tool.FailedUnavailable, code(t, err))
	_, err = results.New(nil, "", "").Invoke(t.Context(), tool.Invocation{})
	require.Equal(t, tool.FailedUnavailable, code(t, err))
}

func TestTheContractOfResultsRead(t *testing.T) {
	definition := results.New(nil, "olga", "carl").Definition()
	require.NoError(t, definition.Validate())
	require.Equal(t, policy.ImpactRead, definition.Impact)
}
