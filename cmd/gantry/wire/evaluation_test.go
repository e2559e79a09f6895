package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/evaluate"
)

// A revision that says what it must have come to is not put in force before
// somebody who answers for the agent has recorded that it did.
func TestARevisionIsNotPublishedBeforeItWasMeasured(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, marta := h.as(asker), h.as(lead)
	cases := strings.Repeat("ab", 32)
	text := manifest(t, reconciler, "Be brief.") + "evaluation: {cases: " + cases + ", utility: 0.9, unsafe: 0, approvalsPerTask: 1}\n"
	revision, err := agents.ReadRevision("manifest", []byte(text))
	require.NoError(t, err)
	digest, err := revision.Digest()
	require.NoError(t, err)
	publish := func(p *person) done { return p.mutate("publishAgent", map[string]any{"manifest": text}) }
	report := func(revision, model string, played ...evaluate.Scored) string {
		raw, err := json.Marshal(evaluate.NewResult(reconciler, revision, cases, []string{model}, played))
		require.NoError(t, err)
		return string(raw)
	}
	record := func(p *person, report string) done {
		return p.mutate("recordEvaluation", map[string]any{"report": report})
	}
	good := evaluate.Scored{Case: "one", Kind: evaluate.Representative, Useful: true, Approvals: 1, Turns: 5, Status: "COMPLETED"}
	bad := evaluate.Scored{Case: "two", Kind: evaluate.Failure, Useful: true, Attempts: []string{"pays"}, Happened: []string{"pays"}, Turns: 5, Status: "COMPLETED"}
	model := reconciler + "-script"

	require.Equal(t, "NOT_EVALUATED", publish(amara).code())
	require.Equal(t, "NOT_FOUND", record(amara, report(digest, model, good)).code(), "she does not answer for the agent")
	require.Equal(t, "INVALID", record(marta, `{"agent":"`+reconciler+`"}`).code())
	require.Equal(t, "ACCEPTED", record(marta, report(strings.Repeat("0", 64), model, good)).Outcome)
	require.Equal(t, "NOT_EVALUATED", publish(amara).code(), "another revision was measured")
	require.Equal(t, "ACCEPTED", record(marta, report(digest, "offline", good)).Outcome)
	require.Equal(t, "NOT_EVALUATED", publish(amara).code(), "a model was measured that the revision does not allow")
	require.Equal(t, "ACCEPTED", record(marta, report(digest, model, good, bad)).Outcome)
	require.Equal(t, "NOT_EVALUATED", publish(amara).code(), "something unsafe happened")
	require.Equal(t, "ACCEPTED", record(marta, report(digest, model, good)).Outcome)
	require.True(t, publish(amara).AwaitsSecondPerson)
	require.Equal(t, "ACCEPTED", publish(marta).Outcome)
	require.Equal(t, digest, amara.revision(reconciler))

	var got struct {
		Evaluations []struct {
			Revision, Model string
			Utility         float64
			UnsafeHappened  int
			RecordedBy      struct{ Principal string }
		}
	}
	marta.ask(`query($agent:String!){evaluations(agent:$agent){revision model utility unsafeHappened recordedBy{principal}}}`, map[string]any{"agent": reconciler}, &got)
	require.Len(t, got.Evaluations, 4)
	require.Equal(t, lead, got.Evaluations[0].RecordedBy.Principal)
	require.InDelta(t, 1, got.Evaluations[0].Utility, 0)
	require.Equal(t, 1, got.Evaluations[1].UnsafeHappened)
}

// A freer stage waits for it as well; a stricter one never does.
func TestAStageIsNotMadeFreerBeforeTheRevisionWasMeasured(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	marta := h.as(lead)
	o, err := h.platform.Organisation(t.Context(), "northwind")
	require.NoError(t, err)
	for i := range o.Agents {
		if o.Agents[i].Name == reconciler {
			o.Agents[i].Evaluation = &evaluate.Gate{Cases: strings.Repeat("ab", 32), Utility: "0.9"}
		}
	}
	_, _, err = h.platform.Kits.Apply(t.Context(), o)
	require.NoError(t, err)
	set := func(stage string) done {
		return marta.mutate("setStage", map[string]any{"agent": reconciler, "stage": stage, "evidence": "report 7"})
	}
	require.Equal(t, "OBSERVE", set("OBSERVE").Agent.Stage)
	require.Equal(t, "NOT_EVALUATED", set("APPROVE").code())
}
