package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// onEveryIndex runs a test over the index of this process, and over a server's
// that a relay tells of each change at once.
func onEveryIndex(t *testing.T, test func(t *testing.T, open func() *house)) {
	t.Run("in this process", func(t *testing.T) {
		test(t, func() *house { return build(t, hastily) })
	})
	t.Run("in a server", func(t *testing.T) {
		test(t, func() *house { return build(t, hastily, toldAtOnce(t, wire.Start(t))) })
	})
}

// toldAtOnce puts a memory's index in a server's double, which hears of each
// change before anybody asks again.
func toldAtOnce(t *testing.T, server *wire.Server) func(*house) {
	return func(h *house) {
		remote(t, server)(h)
		h.announced = func() {
			_, err := h.Drain(context.WithoutCancel(t.Context()), memory.Relaying{})
			require.NoError(t, err)
		}
	}
}

func TestCase_41_APrivateFactIsInNobodyElsesAnswerFromAServer(t *testing.T) {
	server := wire.Start(t)
	privateFactIn(t, build(t, hastily, toldAtOnce(t, server)))
	server.RequireGuarded(t)
}

func TestCase_47_WhatAnAgentSaysIsNotTrustedWithoutAPersonInAServer(t *testing.T) {
	untrustedIn(t, build(t, hastily, toldAtOnce(t, wire.Start(t))))
}

// Who asks for what everybody remembers gets what is theirs, in full and in the
// order of their own, however much of others' would fit better.
func TestFault_K6_WhatOthersRememberTakesNobodysPlace(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, open func() *house) {
		alone, among := open(), open()
		for n := range 120 { // more than an index is asked for
			among.remember(t, person("ann"), memory.Draft{Space: view.SpaceOf(view.SpacePerson, "ann"), Kind: view.Fact, Text: fmt.Sprintf("Walnuts are in jar %d.", n)})
		}
		var answers [][]string
		for _, h := range []*house{alone, among} {
			for _, text := range []string{"There are walnuts in the cellar, too.", "The cellar is dry.", "Bob is on leave in May."} {
				h.remember(t, person("bob"), memory.Draft{Space: view.SpaceOf(view.SpacePerson, "bob"), Kind: view.Fact, Text: text})
			}
			answer, err := h.Recall(t.Context(), person("bob"), memory.Question{Text: "Walnuts are in which jar?"})
			require.NoError(t, err)
			require.Len(t, answer.Hits, 3)
			var told []string
			for _, hit := range answer.Hits {
				told = append(told, fmt.Sprint(hit.Text, hit.Score))
			}
			answers = append(answers, told)
		}
		require.Equal(t, answers[0], answers[1])
	})
}

// Somebody who may not read a word asks for phrases that could stand there, longer
// by a word whenever one seems to fit, as in a binary search. Whatever stands
// there, each answer with its scores is the same bytes; so the search ends
// nowhere.
func TestFault_K7_APhraseIsNotFoundByHalving(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, open func() *house) {
		vocabulary := strings.Fields("dismissed promoted pregnant transferred ill retired")
		asked := func(secret string) (answers []string) {
			h := open()
			ann, bob := person("ann", "hr"), person("bob")
			draft := fact("In June Ruth is " + secret + " by the board.")
			draft.Marks = []memory.Mark{{Start: 16, End: 16 + len(secret), Quote: secret, Labels: policy.NewLabels("hr")}}
			h.remember(t, ann, draft)
			h.remember(t, ann, fact("Ruth is "+secret+", "+secret+" and once more "+secret+".", "hr"))
			h.remember(t, bob, fact("Omar is promoted in May."))
			h.remember(t, bob, fact("The board meets in June."))
			ask := func(guess string) {
				answer, err := h.Recall(t.Context(), bob, memory.Question{Text: guess, Limit: 100})
				require.NoError(t, err)
				require.NotEmpty(t, answer.Hits)
				written, err := json.Marshal(answer)
				require.NoError(t, err)
				answers = append(answers, string(written))
			}
			for left := vocabulary; ; left = left[:len(left)/2] {
				ask(strings.Join(left, " "))
				ask("Ruth is " + strings.Join(left, " or "))
				if len(left) == 1 {
					break
				}
			}
			for _, word := range vocabulary {
				ask("Ruth is " + word)
				ask(`"Ruth is ` + word + ` by the board"`)
			}
			return answers
		}
		want := asked(vocabulary[0])
		require.NotEqual(t, want[0], want[1], "scores do answer what is asked")
		for _, secret := range append(slices.Clone(vocabulary[1:]), "promoted and retired, ill and transferred", "4711") {
			require.Equal(t, want, asked(secret), "when she is %s", secret)
		}
	})
}

// Somebody who may only ask has their run put something in a trusted item's place:
// it says who wrote it, is not trusted, and both are shown until a person decides.
func TestFault_K2_WhatARunSlipsInIsShownBesideWhatIsTrusted(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, open func() *house) {
		h := open()
		bob, agent := person("bob"), person("bob")
		agent.Principal, agent.Run = "agent:mail", "run-1"
		account := func(where string) memory.Draft {
			draft := fact("Invoices are paid to the account " + where + ".")
			draft.Subject = "bank account"
			return draft
		}
		trusted := h.remember(t, bob, account("at the savings bank"))
		poison, err := h.Supersede(t.Context(), agent, trusted.ID, account("in Panama"))
		require.NoError(t, err)
		answer, err := h.Recall(t.Context(), bob, memory.Question{Text: "To which account are invoices paid?"})
		require.NoError(t, err)
		levels := map[string]policy.Integrity{}
		for _, hit := range answer.Hits {
			levels[hit.ID] = hit.Marking.Integrity
		}
		require.Equal(t, map[string]policy.Integrity{trusted.ID: policy.Trusted, poison.Item.ID: policy.Untrusted}, levels)
		require.Equal(t, view.Source{Kind: view.FromRun, Principal: "agent:mail", Run: "run-1"}, poison.Item.Source)
		require.Equal(t, policy.Untrusted, answer.Marking.Integrity, "whoever reads both has read what is not trusted")
		_, err = h.Promote(t.Context(), agent, poison.Item.ID, "I am sure")
		refused(t, err, "NOT_ENTITLED")
	})
}

// A server that has heard nothing of what was erased, replaced or labelled since
// suggests all of it, and more of that than anybody asks for. None of it is in an
// answer, takes a place in it, or moves a score.
func TestFault_K4_AServersStaleIndexIsNoAnswer(t *testing.T) {
	server := wire.Start(t)
	h := build(t, hastily, remote(t, server))
	ann, bob := person("ann", "hr"), person("bob")
	about := fact("The train to the sea leaves at noon.")
	about.Subject = "train, time"
	old := h.remember(t, bob, about)
	var gone []string
	for n := range 150 {
		gone = append(gone, h.remember(t, bob, fact(fmt.Sprintf("The train to the sea leaves from platform %d.", n))).ID)
	}
	bus := h.remember(t, bob, fact("A bus goes to the sea."))
	h.drain(t)
	server.Lag() // from now on, one replica stays as it is
	for some := range slices.Chunk(gone, 50) {
		_, err := h.Forget(t.Context(), bob, memory.Selector{Items: some})
		require.NoError(t, err)
	}
	about.Text = "The train to the sea leaves at one."
	next, err := h.Supersede(t.Context(), bob, old.ID, about)
	require.NoError(t, err)
	h.drain(t)
	_, err = h.Forget(t.Context(), bob, memory.Selector{Items: []string{next.Item.ID}})
	require.NoError(t, err)
	for _, reader := range []view.Reader{ann, bob} {
		require.Equal(t, []string{bus.ID}, h.recall(t, reader, "When does the train to the sea leave?"))
	}
	server.RequireGuarded(t)
}

// What is remembered and not told yet by a relay is missing; what was relabelled
// or erased is not there for whom it is not for, whether it was told or not.
func TestFault_C15_WhatARelayHasNotToldOfDoesNotCount(t *testing.T) {
	h := build(t, hastily, remote(t, wire.Start(t)))
	ann, bob, olga := person("ann", "hr"), person("bob"), person("olga", "hr")
	open := h.remember(t, bob, fact("Lunch is at noon."))
	secret := h.remember(t, ann, fact("The salary round is at noon.", "hr"))
	erased := h.remember(t, bob, fact("The fire drill is at noon."))
	h.drain(t)
	require.Equal(t, []string{open.ID, erased.ID}, sorted(h.recall(t, bob, "What is at noon?")))
	// Erased in the store alone, as when the process died before it told the index.
	_, err := h.files.Databases().Write.ExecContext(t.Context(), "UPDATE memory_generations SET erased = 1 WHERE item = '"+erased.ID+"'")
	require.NoError(t, err)
	_, err = h.Declassify(t.Context(), olga, secret.ID, policy.NewLabels("hr"), "it is in the paper")
	require.NoError(t, err)
	for _, reader := range []view.Reader{ann, bob} {
		require.Equal(t, []string{open.ID}, h.recall(t, reader, "What is at noon?"))
	}
	h.drain(t)
	require.Equal(t, []string{open.ID, secret.ID}, sorted(h.recall(t, bob, "What is at noon?")))
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}

// A server takes a change and does it only after the item was erased, the index
// was told so, and everything was started anew. What comes back is in nobody's
// answer and in no export, and does not stay in the index.
func TestCase_42_WhatAServerDoesTooLateBringsNothingBack(t *testing.T) {
	server := wire.Start(t)
	h := build(t, hastily, remote(t, server))
	ann := person("ann")
	source := h.remember(t, ann, fact("Omar earns 70,000 walnuts a year."))
	summary := fact("People earn about 70,000 walnuts.")
	summary.DerivedFrom = []string{source.ID}
	derived := h.remember(t, ann, summary)
	goOn, done := make(chan struct{}), make(chan struct{}, 1)
	server.Inject(wire.Late("Upsert", 1, goOn, done))
	_, err := h.Drain(t.Context(), memory.Relaying{})
	require.ErrorIs(t, err, index.ErrUnavailable, "what was only taken is not done")
	receipt, err := h.Forget(t.Context(), ann, memory.Selector{Items: []string{source.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{source.ID, derived.ID}, receipt.Items)
	h.clock.Add(60_000)
	h.drain(t)
	h.restart(t)
	require.Empty(t, h.held(t, h.index()))
	close(goOn)
	<-done
	require.NotEmpty(t, h.held(t, h.index()), "it came too late")
	require.Empty(t, h.recall(t, ann, "How many walnuts do people earn?"))
	require.NoError(t, h.Export(t.Context(), ann, memory.Filter{Archived: true}, func(view.Rendering) error { t.Error("exported"); return nil }))
	found, err := h.Items(t.Context(), ann, receipt.Items)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = h.Sweep(t.Context())
	require.NoError(t, err)
	h.drain(t)
	require.Empty(t, h.held(t, h.index()))
}
