package group_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/group"
)

const here = "conversation-1"

// talk is a conversation under test: people write into it, and whose turn it is
// answers.
type talk struct {
	t     *testing.T
	lines []group.Line
}

func gathering(t *testing.T, agents ...string) *talk {
	k := &talk{t: t}
	for _, agent := range agents {
		k.add(group.Line{Kind: group.Joined, Author: "amara", Whom: "agent:" + agent})
	}
	return k
}

func (k *talk) add(line group.Line) uint64 {
	line.Number = uint64(len(k.lines) + 1)
	line.AtMs = 1_700_000_000_000 + int64(line.Number)
	k.lines = append(k.lines, line)
	return line.Number
}

func (k *talk) rule(kind group.Kind, agent string, most int) {
	k.add(group.Line{Kind: group.TurnsSet, Author: "amara", Code: string(kind), Whom: agent, About: uint64(most)})
}

func (k *talk) say(who, text string) uint64 {
	return k.add(group.Line{Kind: group.Message, Author: who, Text: text})
}

func (k *talk) due() group.Due { return group.Follow(here, k.lines) }

// next is the one turn that is due.
func (k *talk) next() group.Turn {
	k.t.Helper()
	due := k.due()
	require.Len(k.t, due.Turns, 1, "%+v", due)
	require.Empty(k.t, due.Stops)
	return due.Turns[0]
}

func (k *talk) begin(turn group.Turn) string {
	k.add(group.Line{Kind: group.RunStarted, Run: turn.Run(here), Author: turn.Agent})
	return turn.Run(here)
}

// takes lets the agent whose turn it is answer.
func (k *talk) takes(agent, answer string) group.Turn {
	k.t.Helper()
	turn := k.next()
	require.Equal(k.t, "agent:"+agent, turn.Agent)
	k.end(k.begin(turn), agent, answer)
	return turn
}

func (k *talk) end(run, agent, answer string) {
	k.add(group.Line{Kind: group.RunEnded, Run: run, Author: "agent:" + agent, Text: answer})
}

func (k *talk) quiet() {
	k.t.Helper()
	require.Equal(k.t, group.Due{Settled: uint64(len(k.lines))}, k.due())
}

func TestTurnByMention(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	k.quiet()
	k.say("amara", "nobody in particular, not even @nobody or @tomas")
	k.quiet()
	asked := k.say("amara", "@ben and @ann, what do you say?")
	turn := k.next()
	require.Equal(t, asked, turn.Exchange)
	require.Equal(t, asked, turn.Entry)
	require.Equal(t, "amara", turn.By)
	require.Equal(t, "amara", turn.Subject)
	require.Equal(t, asked-1, k.due().Settled)
	run := k.begin(turn)
	require.Empty(t, k.due().Turns, "one after the other")
	k.end(run, "ben", "I say yes.")
	k.takes("ann", "So do I.")
	k.quiet()
	k.say("agent:ann", "@ben what an agent writes beside its runs begins nothing")
	k.quiet()
}

func TestTurnFromAgentToAgent(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben", "col")
	asked := k.say("amara", "@ann please")
	k.takes("ann", "I do not know; @ben does, and @ann not.")
	answered := uint64(len(k.lines))
	k.say("tomas", "thanks")
	turn := k.next()
	require.Equal(t, group.Turn{Exchange: asked, Subject: "amara", Entry: answered, By: "agent:ann", Agent: "agent:ben", AtMs: turn.AtMs}, turn)
	k.takes("ben", "It is 7.")
	k.quiet()
}

func TestExchangesOfSeveralPeopleGoOnBesideEachOther(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	first := k.say("amara", "@ann one")
	second := k.say("tomas", "@ann two")
	due := k.due()
	require.Len(t, due.Turns, 2)
	require.Equal(t, []string{"amara", "tomas"}, []string{due.Turns[0].Subject, due.Turns[1].Subject})
	require.NotEqual(t, due.Turns[0].Run(here), due.Turns[1].Run(here))
	one, two := k.begin(due.Turns[0]), k.begin(due.Turns[1])
	k.end(two, "ann", "@ben two")
	require.Equal(t, second, k.next().Exchange)
	require.Equal(t, first-1, k.due().Settled, "the first is not over")
	k.end(one, "ann", "one")
	require.Equal(t, second-1, k.due().Settled)
}

func TestTurnInRound(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben", "col")
	k.rule(group.InRound, "", 0)
	k.say("amara", "what do you all say, @col?")
	k.takes("ann", "@col after me")
	k.takes("ben", "@ann again?")
	k.takes("col", "no")
	k.quiet()
	k.rule(group.InRound, "", 2)
	asked := k.say("amara", "again")
	k.takes("ann", "1")
	k.takes("ben", "2")
	require.Equal(t, []group.Stop{{Exchange: asked, Agent: "agent:col", Reason: group.TurnLimit}}, k.due().Stops)
}

func TestTurnByName(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	k.rule(group.ByName, "agent:ben", 0)
	k.say("amara", "anybody? @ann?")
	k.takes("ben", "I ask @ann.")
	k.takes("ann", "yes")
	k.quiet()
	k.add(group.Line{Kind: group.Left, Whom: "agent:ben"})
	k.say("amara", "anybody?")
	k.quiet()
	k.say("amara", "@ann?")
	k.takes("ann", "who is mentioned answers, where the one that answers is gone")
	agents, rule := group.Standing(k.lines)
	require.Equal(t, []string{"agent:ann"}, agents)
	require.Equal(t, group.Rule{Kind: group.ByMention, Most: group.DefaultMost}, rule)
}

func TestRunThatAPersonBeganByName(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	asked := k.add(group.Line{Kind: group.Message, Run: "r1", Author: "amara", Text: "@ben do it"})
	k.add(group.Line{Kind: group.RunStarted, Run: "r1", Author: "agent:ann"})
	require.Empty(t, k.due().Turns, "the message went to somebody else")
	require.Equal(t, asked-1, k.due().Settled)
	k.add(group.Line{Kind: group.Message, Run: "r1", Author: "tomas", Text: "@ben mind the VAT"}) // guides it
	k.end("r1", "ann", "@ben shall go on")
	require.Equal(t, "amara", k.next().Subject)
	k.takes("ben", "done")
	k.quiet()
	k.add(group.Line{Kind: group.RunStarted, Run: "r2", Author: "agent:ann"}) // of nobody's message
	k.end("r2", "ann", "@ben what came from elsewhere gives no turn")
	k.quiet()
}

func TestTurnIsRefused(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	asked := k.say("amara", "@ann @ben")
	k.add(group.Line{Kind: group.Refused, Author: group.Platform, Whom: "agent:ben", Code: "BUDGET", About: asked}) // not its turn
	k.add(group.Line{Kind: group.Refused, Author: group.Platform, Whom: "agent:ann", Code: "BUDGET", About: asked + 7})
	require.Equal(t, "agent:ann", k.next().Agent)
	k.add(group.Line{Kind: group.Refused, Author: group.Platform, Whom: "agent:ann", Code: "BUDGET", About: asked})
	k.takes("ben", "here")
	k.quiet()
}

func TestWhoLeavesTakesNoTurn(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben")
	k.say("amara", "@ann @ben")
	run := k.begin(k.next())
	k.add(group.Line{Kind: group.Left, Whom: "agent:ben"})
	k.end(run, "ann", "@ben is gone")
	k.quiet()
	k.add(group.Line{Kind: group.Joined, Whom: "agent:ben"})
	k.add(group.Line{Kind: group.Joined, Whom: "agent:ben"})
	k.add(group.Line{Kind: group.Joined, Whom: "tomas"})
	k.quiet()
	agents, _ := group.Standing(k.lines)
	require.Equal(t, []string{"agent:ann", "agent:ben"}, agents)
}

func TestNobodyTakesATurnForWhoLeft(t *testing.T) {
	t.Parallel()
	k := gathering(t, "ann", "ben", "col")
	k.say("tomas", "@ann @ben")
	k.say("amara", "@col")
	due := k.due()
	run := k.begin(due.Turns[0])
	k.add(group.Line{Kind: group.Left, Whom: "tomas"})
	k.end(run, "ann", "@col, go on")
	require.Equal(t, "amara", k.next().Subject)
	k.takes("col", "yes")
	k.quiet()
}

// An exchange that goes in circles ends, with a reason; the next message begins
// anew.
func TestLoopsAreStopped(t *testing.T) {
	t.Parallel()
	t.Run("two agents hand it to each other", func(t *testing.T) {
		t.Parallel()
		k := gathering(t, "ann", "ben", "col")
		for range 2 {
			asked := k.say("amara", "@ann go")
			for n := range 4 {
				agent, other := "ann", "ben"
				if n%2 == 1 {
					agent, other = other, agent
				}
				k.takes(agent, fmt.Sprintf("%d, @%s", n, other))
			}
			require.Equal(t, []group.Stop{{Exchange: asked, Agent: "agent:ann", Reason: group.BackAndForth}}, k.due().Stops)
			require.Empty(t, k.due().Turns)
			k.add(group.Line{Kind: group.Stopped, Author: group.Platform, Whom: "agent:ann", Code: string(group.BackAndForth), About: asked})
			k.quiet()
		}
	})
	t.Run("a third one breaks the circle", func(t *testing.T) {
		t.Parallel()
		k := gathering(t, "ann", "ben", "col")
		asked := k.say("amara", "@ann go")
		for n, step := range []string{"ann ben", "ben ann", "ann col", "col ben", "ben ann", "ann ben"} {
			agent, other, _ := strings.Cut(step, " ")
			k.takes(agent, fmt.Sprintf("%d, @%s", n, other))
		}
		require.Equal(t, []group.Stop{{Exchange: asked, Agent: "agent:ben", Reason: group.TurnLimit}}, k.due().Stops)
	})
	t.Run("the same is said again", func(t *testing.T) {
		t.Parallel()
		k := gathering(t, "ann", "ben", "col")
		asked := k.say("amara", "@ann go")
		k.takes("ann", "@ben and @col, what do you say?")
		k.takes("ben", "@BEN  and @col, what\ndo you say?")
		k.takes("col", "@ben and @col, what  do you say?")
		require.Equal(t, []group.Stop{{Exchange: asked, Agent: "agent:ben", Reason: group.SameAnswer}}, k.due().Stops)
	})
	t.Run("empty answers are no repetition, and people's own turns are given", func(t *testing.T) {
		t.Parallel()
		k := gathering(t, "ann", "ben", "col")
		k.say("amara", "@ann @ben @col")
		k.takes("ann", "")
		k.takes("ben", "")
		k.takes("col", "yes")
		k.quiet()
	})
	t.Run("what ends after the stop gives no turn", func(t *testing.T) {
		t.Parallel()
		k := gathering(t, "ann", "ben")
		asked := k.say("amara", "@ann go")
		run := k.begin(k.next())
		k.add(group.Line{Kind: group.Stopped, About: asked})
		k.add(group.Line{Kind: group.Stopped, About: asked + 9})
		k.end(run, "ann", "@ben go on")
		k.quiet()
	})
}

// Wherever a reading begins behind what was settled, it comes to the same.
func TestReadingFromWhatIsSettled(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	agents := []string{"ann", "ben", "col"}
	for range 300 {
		k := gathering(t, agents...)
		for range 40 {
			k.step(random, agents)
			due, settled := k.due(), k.due().Settled
			rest := slices.DeleteFunc(slices.Clone(k.lines), func(line group.Line) bool {
				return line.Number <= settled && line.Kind != group.Joined && line.Kind != group.Left && line.Kind != group.TurnsSet
			})
			again := group.Follow(here, rest)
			again.Settled = due.Settled // nothing but what was left out may be missing at the end
			require.Equal(t, due, again)
			for _, x := range append(due.Turns, due.Turns...) {
				require.Greater(t, x.Exchange, settled)
			}
		}
	}
}

// step writes whatever may come next.
func (k *talk) step(random *rand.Rand, agents []string) {
	due := k.due()
	some := func() string { return agents[random.IntN(len(agents))] }
	switch n := random.IntN(10); {
	case n < 3:
		k.say("amara", "@"+some()+" @"+some())
	case n == 3:
		k.rule([]group.Kind{group.ByMention, group.InRound, group.ByName}[random.IntN(3)], "agent:"+some(), 1+random.IntN(6))
	case n == 4:
		kind := []string{group.Joined, group.Left}[random.IntN(2)]
		k.add(group.Line{Kind: kind, Whom: "agent:" + some()})
	case len(due.Stops) > 0:
		k.add(group.Line{Kind: group.Stopped, About: due.Stops[0].Exchange})
	case len(due.Turns) > 0 && n == 5:
		k.add(group.Line{Kind: group.Refused, Whom: due.Turns[0].Agent, About: due.Turns[0].Exchange})
	case len(due.Turns) > 0:
		turn := due.Turns[0]
		run := k.begin(turn)
		if n < 8 {
			k.end(run, strings.TrimPrefix(turn.Agent, "agent:"), fmt.Sprint(len(k.lines), " @", some()))
		}
	}
}

// A turn has one run id, whoever takes it, that sorts by time and is like no
// other turn's.
func TestTurnRun(t *testing.T) {
	t.Parallel()
	turn := group.Turn{Entry: 7, Agent: "agent:ann", AtMs: 1_700_000_000_000}
	id := turn.Run(here)
	require.Regexp(t, `^018bcfe5-6800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
	require.Equal(t, id, turn.Run(here))
	other, later, elsewhere := turn, turn, turn.Run("conversation-2")
	other.Agent, later.AtMs = "agent:ben", turn.AtMs+1
	require.NotEqual(t, id, other.Run(here))
	require.NotEqual(t, id, elsewhere)
	require.Less(t, id, later.Run(here))
	entry := turn
	entry.Entry++
	require.NotEqual(t, id, entry.Run(here))
}
