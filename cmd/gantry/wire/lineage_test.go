package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Two agents of finance that do nothing themselves: the desk hands on to the
// clerk, and the clerk to the reconciler.
const (
	desk  = "desk"
	clerk = "clerk"
)

// handOn is the script of all three, by the beginning of the goal.
const handOn = `
def turn(ctx):
    goal = [m.text for m in ctx.messages if m.role == "user"][0]
    whom, found, rest = goal.partition(": ")
    if not found:
        return alone(ctx)
    done = ctx.result("agents.delegate")
    if done == None:
        return {"calls": [{"name": "agents.delegate", "arguments": {"agent": whom, "brief": rest}}]}
    return {"text": "Handed on to " + whom + "."}
`

// inAChain lets the desk hand on to the clerk, and the clerk to the reconciler.
func inAChain(o *agents.Organisation) {
	for i, script := range o.Scripts {
		if script.Name == reconciler {
			o.Scripts[i].Text = strings.Replace(script.Text, "def turn(ctx):", "def alone(ctx):", 1) + handOn
		}
	}
	last, _ := o.Agent(reconciler)
	for i, name := range []string{clerk, desk} {
		next := last
		next.Name, next.Completion = name, agents.Completion{}
		next.Tools = append([]agents.ToolUse{{Name: "agents.delegate", Impact: policy.ImpactRead, Calls: 3}}, last.Tools...)
		if i > 0 {
			next.Tools, next.Owner = last.Tools, lender // who answers for the root alone
		}
		next.Delegates = []agents.Delegate{{Agent: last.Name}}
		next.Limits.MicroUSD, next.Limits.Tokens, next.Limits.Duration = 2*last.Limits.MicroUSD, 2*last.Limits.Tokens, 2*last.Limits.Duration
		next.Limits.Depth, next.Limits.FanOut, next.Limits.RunsAtOnce = i+1, 2, i+1
		o.Agents = append(o.Agents, next)
		last = next
	}
}

// A grandchild's call is held for whoever owns the tool: they hear by which runs
// and agents it came about, for whom, and decide it there; the root goes on.
func TestCase_15_AGrandchildsApprovalSurfacesWithItsWholeLineage(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: inAChain})
	amara, tomas := h.as(asker), h.as(controller)
	root, err := amara.StartRun(t.Context(), client.Start{Agent: desk, Goal: clerk + ": " + reconciler + ": Reconcile INV-1004."})
	require.NoError(t, err)
	child, err := amara.RunID(t.Context(), run.ChildOfCall(client.ShortID(root.ID), 1))
	require.NoError(t, err)
	grandchild, err := amara.RunID(t.Context(), run.ChildOfCall(client.ShortID(child), 1))
	require.NoError(t, err)
	const line = `lineage{run kind agent agentRevision}`
	// It is asked in the tree's own stream.
	var asked string
	require.NoError(t, amara.TreeEvents(t.Context(), root.ID, "", func(e client.Event) (bool, error) {
		if e.Kind == "approval_requested" {
			asked = e.Run
		}
		return asked == "", nil
	}))
	require.Equal(t, grandchild, asked)
	var got struct {
		Inbox []struct {
			Run struct {
				ID, Parent, Root string
				Subject          struct{ Principal string }
				Lineage          []client.Link
			}
			Approval struct {
				client.Approval
				Lineage     []client.Link
				ActingChain []struct{ Principal string }
			}
		}
	}
	tomas.ask(`{inbox{run{id parent root subject{principal} `+line+`} approval{id digest tool actingChain{principal} `+line+`}}}`, nil, &got)
	require.Len(t, got.Inbox, 1)
	item := got.Inbox[0]
	require.Equal(t, []string{grandchild, child, root.ID, asker}, []string{item.Run.ID, item.Run.Parent, item.Run.Root, item.Run.Subject.Principal})
	require.Equal(t, item.Run.Lineage, item.Approval.Lineage)
	link := func(run, kind, agent string) client.Link {
		var is struct{ Agent struct{ Revision string } }
		amara.ask(`query($name:String!){agent(name:$name){revision}}`, map[string]any{"name": agent}, &is)
		return client.Link{Run: run, Kind: kind, Agent: agent, AgentRevision: is.Agent.Revision}
	}
	require.Equal(t, []client.Link{link(root.ID, "ROOT", desk), link(child, "SUB_AGENT", clerk), link(grandchild, "SUB_AGENT", reconciler)},
		item.Approval.Lineage)
	require.Equal(t, "ledger.post_adjustment", item.Approval.Tool)
	require.Zero(t, h.entries("INV-1004"))
	tomas.decide(item.Approval.Approval, true)
	ended := amara.ended(root.ID)
	require.Equal(t, "COMPLETED", ended.Status)
	require.Equal(t, 1, h.entries("INV-1004"))
}

// Whom a run works for sees all below it and may guide it there, and who answers
// for its agent may stop it there; somebody else knows of none of it.
func TestARunsPeopleSeeAndStopWhatIsBelowIt(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: inAChain})
	amara, tomas, jonas, ruth := h.as(asker), h.as(controller), h.as(colleague), h.as(lender)
	root, err := amara.StartRun(t.Context(), client.Start{Agent: desk, Goal: clerk + ": " + reconciler + ": Reconcile INV-1004."})
	require.NoError(t, err)
	child, err := amara.RunID(t.Context(), run.ChildOfCall(client.ShortID(root.ID), 1))
	require.NoError(t, err)
	grandchild, err := amara.RunID(t.Context(), run.ChildOfCall(client.ShortID(child), 1))
	require.NoError(t, err)
	require.NoError(t, amara.TreeEvents(t.Context(), root.ID, "", func(e client.Event) (bool, error) { return e.Kind != "approval_requested", nil }))
	type listed struct {
		Run *struct {
			WaitingFor []string
			Children   struct {
				Edges []struct {
					Node struct {
						Kind, Agent, Status string
						Call                int
						Run                 struct {
							ID   string
							Task struct {
								Call  int
								Lands string
							}
						}
						Carve struct{ Money string }
					}
				}
			}
		}
	}
	const below = `query($id:ID!){run(id:$id){waitingFor children{edges{node{kind agent status call carve{money} run{id task{call lands}}}}}}}`
	for _, who := range []*person{amara, ruth, tomas} {
		var got listed
		who.ask(below, map[string]any{"id": child}, &got)
		require.Equal(t, []string{"CHILDREN"}, got.Run.WaitingFor)
		require.Len(t, got.Run.Children.Edges, 1)
		one := got.Run.Children.Edges[0].Node
		require.Equal(t, []any{"SUB_AGENT", reconciler, "WAITING", 1, grandchild, 1, "RESULT"}, []any{one.Kind, one.Agent, one.Status, one.Call, one.Run.ID, one.Run.Task.Call, one.Run.Task.Lands})
		require.NotEmpty(t, one.Carve.Money)
	}
	for filter, want := range map[string][]string{`{kinds:[ROOT]}`: {root.ID}, `{kinds:[SUB_AGENT,SIDECAR]}`: {child, grandchild}, `{parent:"` + child + `"}`: {grandchild}, `{kinds:[SIDECAR]}`: {}} {
		var got struct {
			Runs struct {
				Edges []struct{ Node struct{ ID string } }
			}
		}
		amara.ask(`{runs(filter:`+filter+`){edges{node{id}}}}`, nil, &got)
		ids := []string{}
		for _, edge := range got.Runs.Edges {
			ids = append(ids, edge.Node.ID)
		}
		require.ElementsMatch(t, want, ids, filter)
	}
	for _, id := range []string{root.ID, child, grandchild} {
		_, err := jonas.Run(t.Context(), id)
		require.True(t, client.IsCode(err, "NOT_FOUND"), err)
	}
	err = jonas.TreeEvents(t.Context(), root.ID, "", func(client.Event) (bool, error) { return false, nil })
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
	require.Equal(t, "NOT_FOUND", jonas.mutate("cancelRun", map[string]any{"run": grandchild}).code())
	require.Empty(t, amara.mutate("steerRun", map[string]any{"run": grandchild, "text": "Look again."}).UserErrors)
	require.Empty(t, ruth.mutate("cancelRun", map[string]any{"run": grandchild}).UserErrors)
	require.Equal(t, "CANCELLED", amara.ended(grandchild).Status)
	require.Equal(t, "COMPLETED", amara.ended(root.ID).Status, "the run above goes on with what became of it")
	require.Zero(t, h.entries("INV-1004"))
}

// The private side of a share is no part of the tree for whoever borrows: not
// among the runs below, and not in the stream of the tree.
func TestAPrivateSideIsNoPartOfTheBorrowersTree(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	liam, ruth, keiko := h.as(borrower), h.as(lender), h.as(keeper)
	ctx := t.Context()
	asked, err := liam.RequestShare(ctx, client.GrantInput{Agent: "pay-librarian", Department: "sales", Reason: "Offers.", Ceiling: &client.CeilingInput{Labels: []string{"hr-salary"}},
		Yields: []client.Yield{{Name: "within-band", Description: "Whether it fits.", Schema: `{"type":"boolean"}`}}})
	require.NoError(t, err)
	for _, who := range []*person{ruth, keiko} {
		_, err = who.DecideShare(ctx, asked.ID, true, "")
		require.NoError(t, err)
	}
	root, err := liam.StartRun(ctx, client.Start{Agent: "pay-librarian", Goal: "Is 6000 EUR a month within band D?"})
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", liam.ended(root.ID).Status)
	private, err := ruth.RunID(ctx, run.ChildOfCall(client.ShortID(root.ID), 2))
	require.NoError(t, err)
	told := func(who *person) map[string]int {
		events := map[string]int{}
		require.NoError(t, who.TreeEvents(ctx, root.ID, "", func(e client.Event) (bool, error) {
			events[e.Run]++
			return e.Run != root.ID || e.Kind != "ended", nil
		}))
		return events
	}
	children, err := liam.Children(ctx, root.ID)
	require.NoError(t, err)
	require.Empty(t, children)
	require.NotContains(t, told(liam), private)
	children, err = ruth.Children(ctx, root.ID)
	require.NoError(t, err)
	require.Len(t, children, 1)
	require.Equal(t, private, children[0].Run.ID)
	require.Contains(t, told(ruth), private, "who answers for the agent has it in the tree")
	byTool := func() map[string]int {
		var got struct {
			Usage []struct {
				Key  string
				Runs int `json:"runs,string"`
			}
		}
		liam.ask(`query($from:Time!,$to:Time!){usage(groupBy:TOOL,from:$from,to:$to){key runs}}`,
			map[string]any{"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}, &got)
		runs := map[string]int{}
		for _, row := range got.Usage {
			runs[row.Key] = row.Runs
		}
		return runs
	}
	require.Equal(t, map[string]int{"files.read": 1, "agents.delegate": 1}, byTool(), "by which calls the private side came to its answer is its own")
	require.Contains(t, liam.usage("AGENT"), "pay-librarian", "what it cost is the borrower's")
}
