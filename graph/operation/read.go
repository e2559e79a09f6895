package operation

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
)

// Run returns one run. Errors: Absent.
func (o Operations) Run(ctx context.Context, id string) (Run, error) {
	var got struct{ Run *shown }
	if err := o.ask(ctx, `query($id:ID!){run(id:$id)`+selection+`}`, map[string]any{"id": id}, &got); err != nil {
		return Run{}, err
	}
	if got.Run == nil {
		return Run{}, Absent
	}
	return got.Run.run(), nil
}

// Runs returns a page of the caller's runs, latest first, and the cursor of the
// next page, "" for none. Agent and conversation select; empty ones do not.
func (o Operations) Runs(ctx context.Context, agent, conversation, after string, first int) (runs []Run, next string, err error) {
	var got struct {
		Runs struct {
			Edges    []struct{ Node shown }
			PageInfo struct {
				HasNextPage bool
				EndCursor   *string
			}
		}
	}
	variables := map[string]any{"first": first, "filter": given(map[string]string{"agent": agent, "conversation": conversation})}
	if after != "" {
		variables["after"] = after
	}
	document := `query($filter:RunFilter,$first:Int!,$after:Cursor){runs(filter:$filter,first:$first,after:$after){edges{node` + selection + `} pageInfo{hasNextPage endCursor}}}`
	if err := o.ask(ctx, document, variables, &got); err != nil {
		return nil, "", err
	}
	runs = []Run{}
	for _, one := range got.Runs.Edges {
		runs = append(runs, one.Node.run())
	}
	if got.Runs.PageInfo.HasNextPage && got.Runs.PageInfo.EndCursor != nil {
		next = *got.Runs.PageInfo.EndCursor
	}
	return runs, next, nil
}

// Agent is an agent as the caller may know of it.
type Agent struct {
	Name        string `json:"name" jsonschema:"the name, to start runs by"`
	Description string `json:"description" jsonschema:"what it does"`
	Department  string `json:"department" jsonschema:"the department that owns it"`
	Stage       string `json:"stage" jsonschema:"how much it may do by itself"`
	Stopped     bool   `json:"stopped" jsonschema:"whether it is stopped now"`
	Available   bool   `json:"available" jsonschema:"whether the caller may start runs of it"`
	Revision    string `json:"revision" jsonschema:"digest of what it is now"`
}

// shownAgent is an agent as the schema answers with it.
type shownAgent struct {
	Name, Description, Department, Stage, Revision string
	Stopped                                        bool
	AvailableBy                                    []struct{ Until *string }
}

func (a shownAgent) agent() Agent {
	return Agent{Name: a.Name, Description: a.Description, Department: a.Department, Stage: a.Stage, Stopped: a.Stopped,
		Available: len(a.AvailableBy) > 0, Revision: a.Revision}
}

const agentSelection = `{name description department stage revision stopped availableBy{until}}`

// Agents returns the agents that the caller may know of, by name.
func (o Operations) Agents(ctx context.Context) ([]Agent, error) {
	var got struct{ Agents []shownAgent }
	if err := o.ask(ctx, `{agents`+agentSelection+`}`, nil, &got); err != nil {
		return nil, err
	}
	agents := []Agent{}
	for _, one := range got.Agents {
		agents = append(agents, one.agent())
	}
	return agents, nil
}

// Agent returns one agent. Errors: Absent.
func (o Operations) Agent(ctx context.Context, name string) (Agent, error) {
	var got struct{ Agent *shownAgent }
	if err := o.ask(ctx, `query($name:String!){agent(name:$name)`+agentSelection+`}`, map[string]any{"name": name}, &got); err != nil {
		return Agent{}, err
	}
	if got.Agent == nil {
		return Agent{}, Absent
	}
	return got.Agent.agent(), nil
}

// Viewer returns who the caller is, in which organisation.
func (o Operations) Viewer(ctx context.Context) (principal, organisation string, err error) {
	var got struct {
		Viewer struct{ Principal, Organisation string }
	}
	err = o.ask(ctx, `{viewer{principal organisation}}`, nil, &got)
	return got.Viewer.Principal, got.Viewer.Organisation, err
}

// Hit is something remembered that fits a question.
type Hit struct {
	Text      string `json:"text" jsonschema:"what is remembered; [redacted] stands where something is withheld"`
	Citation  string `json:"citation" jsonschema:"where it comes from"`
	Integrity string `json:"integrity" jsonschema:"TRUSTED, TOOL or UNTRUSTED: how far it may be trusted"`
	Space     string `json:"space" jsonschema:"where it is kept"`
	ID        string `json:"id" jsonschema:"id of the item"`
}

// Recollection is the answer to a question.
type Recollection struct {
	Hits     []Hit    `json:"hits" jsonschema:"what was found, best first"`
	Degraded []string `json:"degraded" jsonschema:"parts that could not be asked; empty when the answer is whole"`
}

// Recall returns what is remembered that fits a question best, of what the
// caller may see.
func (o Operations) Recall(ctx context.Context, query string, first int) (Recollection, error) {
	var got struct {
		Recall struct {
			Degraded []string
			Hits     []struct {
				Citation string
				Item     struct{ ID, Text, Integrity, Space string }
			}
		}
	}
	document := `query($query:String!,$first:Int!){recall(query:$query,first:$first){degraded hits{citation item{id text integrity space}}}}`
	if err := o.ask(ctx, document, map[string]any{"query": query, "first": first}, &got); err != nil {
		return Recollection{}, err
	}
	out := Recollection{Hits: []Hit{}, Degraded: append([]string{}, got.Recall.Degraded...)}
	for _, hit := range got.Recall.Hits {
		out.Hits = append(out.Hits, Hit{Text: hit.Item.Text, Citation: hit.Citation, Integrity: hit.Item.Integrity, Space: hit.Item.Space, ID: hit.Item.ID})
	}
	return out, nil
}

// States returns the run as it is now, and again whenever its state has changed,
// until it has ended: then it is returned once more and nothing follows. Errors
// end it.
func (o Operations) States(ctx context.Context, id string) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		var last Run
		// From the beginning: what happened between the two readings is in it.
		for data, err := range o.Schema.Follow(ctx, `subscription($run:ID!){runEvents(run:$run){seq}}`, map[string]any{"run": id}) {
			var told struct{ RunEvents struct{ Seq string } }
			if err == nil {
				err = json.Unmarshal(data, &told)
			}
			if err != nil {
				yield(Run{}, err)
				return
			}
			if last.ID != "" && !newer(told.RunEvents.Seq, last.Version) {
				continue
			}
			now, err := o.Run(ctx, id)
			if err != nil || !same(last, now) && !yield(now, nil) {
				if err != nil {
					yield(Run{}, err)
				}
				return
			}
			if last = now; now.Ended() {
				return
			}
		}
	}
}

// newer reports whether a record came after a reading that had so many.
func newer(seq, version string) bool {
	return len(seq) > len(version) || len(seq) == len(version) && seq > version
}

// same reports whether nothing that is shown has changed.
func same(a, b Run) bool {
	a.Version, b.Version = "", ""
	return reflect.DeepEqual(a, b)
}
