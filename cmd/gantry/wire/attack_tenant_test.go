package wire_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"gantry.dev/agents"
)

// things are objects of one organisation by the kind of their ids, and words
// that only there name something.
type things struct {
	ids     map[string]string // global ids
	names   map[string]string // what an argument of this kind may name
	cursors map[string]string // by the field that gave it
}

// names says for each text of an input what it names; nothing is named by free
// text, nor by a name that is only given here (""). An argument that is missing
// here fails the test: whoever adds one says what it is.
var names = map[string]string{
	"Mutation.startConversation.input.turns.agent":       "agent",
	"Mutation.addParticipant.input.principal":            "principal",
	"Mutation.removeParticipant.input.principal":         "principal",
	"Mutation.setTurns.input.turns.agent":                "agent",
	"Mutation.startResearch.input.coordinator":           "",
	"Mutation.startResearch.input.question":              "",
	"Mutation.startResearch.input.inputs":                "",
	"Mutation.startResearch.input.queries":               "",
	"Mutation.startResearch.input.branches.brief":        "",
	"Mutation.startResearch.input.branches.inputs":       "",
	"Mutation.startResearch.input.branches.agent":        "agent",
	"Mutation.startResearch.input.agent":                 "agent",
	"Mutation.startResearch.input.consolidator":          "",
	"Mutation.retryBranches.input.agent":                 "agent",
	"Mutation.shareAgent.input.agent":                    "agent",
	"Mutation.shareAgent.input.revision":                 "",
	"Mutation.shareAgent.input.department":               "",
	"Mutation.shareAgent.input.person":                   "principal",
	"Mutation.shareAgent.input.ceiling.tools.name":       "",
	"Mutation.shareAgent.input.ceiling.labels":           "",
	"Mutation.shareAgent.input.ceiling.readSpaces":       "",
	"Mutation.shareAgent.input.ceiling.writeSpaces":      "",
	"Mutation.shareAgent.input.ceiling.models":           "",
	"Mutation.shareAgent.input.yields.name":              "",
	"Mutation.shareAgent.input.yields.description":       "",
	"Mutation.shareAgent.input.yields.schema":            "",
	"Mutation.shareAgent.input.yields.template":          "",
	"Mutation.requestShare.input.agent":                  "agent",
	"Mutation.requestShare.input.department":             "",
	"Mutation.requestShare.input.ceiling.tools.name":     "",
	"Mutation.requestShare.input.ceiling.labels":         "",
	"Mutation.requestShare.input.ceiling.readSpaces":     "",
	"Mutation.requestShare.input.ceiling.writeSpaces":    "",
	"Mutation.requestShare.input.ceiling.models":         "",
	"Mutation.requestShare.input.yields.name":            "",
	"Mutation.requestShare.input.yields.description":     "",
	"Mutation.requestShare.input.yields.schema":          "",
	"Mutation.requestShare.input.yields.template":        "",
	"Mutation.grantDelegation.input.agent":               "agent",
	"Mutation.grantDelegation.input.revision":            "",
	"Mutation.grantDelegation.input.from":                "agent",
	"Mutation.grantDelegation.input.ceiling.tools.name":  "",
	"Mutation.grantDelegation.input.ceiling.labels":      "",
	"Mutation.grantDelegation.input.ceiling.readSpaces":  "",
	"Mutation.grantDelegation.input.ceiling.writeSpaces": "",
	"Mutation.grantDelegation.input.ceiling.models":      "",
	"Mutation.grantDelegation.input.yields.name":         "",
	"Mutation.grantDelegation.input.yields.description":  "",
	"Mutation.grantDelegation.input.yields.schema":       "",
	"Mutation.grantDelegation.input.yields.template":     "",
	"Mutation.setDeputy.input.deputy":                    "principal",
	"Mutation.dispatchSidecar.input.agent":               "agent",
	"Mutation.dispatchSidecar.input.brief":               "",
	"Mutation.delegate.input.agent":                      "agent",
	"Mutation.delegate.input.brief":                      "",
	"Query.evaluations.agent":                            "agent",
	"Mutation.recordEvaluation.input.report":             "",
	"Query.agent.name":                                   "agent", "Query.modelReport.agent": "agent", "Query.runs.filter.agent": "agent", "Query.runs.filter.subject": "principal",
	"Mutation.startConversation.input.participants": "principal", "Mutation.sendMessage.input.agent": "agent", "Mutation.startRun.input.agent": "agent",
	"Mutation.createSchedule.input.name": "", "Mutation.createSchedule.input.agent": "agent", "Mutation.createSchedule.input.cron": "", "Mutation.createSchedule.input.zone": "", "Mutation.createSchedule.input.subject": "principal",
	"Mutation.setStage.input.agent": "agent", "Mutation.setBudget.input.node": "node", "Mutation.kill.input.name": "agent", "Mutation.liftKill.input.name": "agent", "Mutation.lendVoice.input.persona": "persona",
	"Subscription.memoryChanged.spaces": "space", "Query.recall.spaces": "space", "Query.memoryItems.filter.spaces": "space", "Query.memoryItems.filter.subject": "about",
	"Query.memoryItems.filter.ref": "source", "Query.memoryItems.filter.principal": "principal",
	"Mutation.remember.input.draft.space": "space", "Mutation.remember.input.draft.subject": "", "Mutation.remember.input.draft.labels": "label",
	"Mutation.remember.input.draft.marks.labels": "label", "Mutation.remember.input.draft.source.ref": "",
	"Mutation.supersede.input.draft.space": "space", "Mutation.supersede.input.draft.subject": "about", "Mutation.supersede.input.draft.labels": "label",
	"Mutation.supersede.input.draft.marks.labels": "label", "Mutation.supersede.input.draft.source.ref": "",
	"Mutation.consolidate.input.draft.space": "space", "Mutation.consolidate.input.draft.subject": "", "Mutation.consolidate.input.draft.labels": "label",
	"Mutation.consolidate.input.draft.marks.labels": "label", "Mutation.consolidate.input.draft.source.ref": "",
	"Mutation.rememberDocument.input.name": "", "Mutation.rememberDocument.input.space": "space", "Mutation.rememberDocument.input.subject": "",
	"Mutation.rememberDocument.input.labels": "label", "Mutation.declassify.input.labels": "label",
	"Mutation.pinTool.input.tool": "", "Mutation.pinTool.input.pin": "",
	"Mutation.forget.input.ref": "source", "Mutation.forget.input.subject": "about", "Mutation.forget.input.space": "space",
}

var free = []string{"title", "text", "goal", "reason", "digest", "answer", "evidence", "manifest", "query", "heading", "quote", "content", "commandId", "clientMutationId"}

// leaf is a place of an operation where an id, a cursor or a name stands.
type leaf struct {
	place string // for example "Mutation.startRun.input.conversation"
	on    string // object type that the field is asked of
	field *ast.FieldDefinition
	path  []string // through the arguments
	kind  string   // "ID", "Cursor", or what is named
	list  bool
}

// matrix walks the schema.
type matrix struct {
	t      *testing.T
	schema *ast.Schema
	leaves []leaf
}

func newMatrix(t *testing.T) *matrix {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "schema.graphql"))
	require.NoError(t, err)
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: string(raw)})
	require.NoError(t, err)
	m := &matrix{t: t, schema: schema}
	for _, name := range slices.Sorted(maps.Keys(schema.Types)) {
		definition := schema.Types[name]
		if definition.Kind != ast.Object || strings.HasPrefix(name, "__") {
			continue
		}
		for _, field := range definition.Fields {
			if strings.HasPrefix(field.Name, "__") {
				continue
			}
			for _, argument := range field.Arguments {
				m.walk(leaf{place: name + "." + field.Name + "." + argument.Name, on: name, field: field, path: []string{argument.Name}}, argument.Type)
			}
		}
	}
	return m
}

// walk finds the leaves of an argument.
func (m *matrix) walk(at leaf, kind *ast.Type) {
	if kind.Elem != nil {
		at.list = true
		m.walk(at, kind.Elem)
		return
	}
	definition := m.schema.Types[kind.Name()]
	switch {
	case definition.Kind == ast.InputObject:
		for _, field := range definition.Fields {
			inner := at
			inner.list = false // of the field itself; that it stands in a list is seen on the way to it
			inner.place += "." + field.Name
			inner.path = append(slices.Clone(at.path), field.Name)
			m.walk(inner, field.Type)
		}
	case kind.Name() == "ID", kind.Name() == "Cursor":
		at.kind = kind.Name()
		m.leaves = append(m.leaves, at)
	case kind.Name() == "String" && !slices.Contains(free, at.path[len(at.path)-1]):
		named, known := names[at.place]
		require.True(m.t, known, "%s takes a text: say in names what it names, or in free that it names nothing", at.place)
		if at.kind = named; named != "" {
			m.leaves = append(m.leaves, at)
		}
	case definition.Kind != ast.Enum:
		require.Contains(m.t, []string{"String", "Int", "Boolean", "Time", "MicroUsd", "Int64"}, kind.Name(), at.place)
	}
}

// document asks for everything that a field answers with, near and far.
func (m *matrix) document(l leaf) string {
	var variables, arguments []string
	for _, argument := range l.field.Arguments {
		if argument.DefaultValue != nil && argument.Name != l.path[0] {
			continue
		}
		variables = append(variables, "$"+argument.Name+":"+strings.TrimSuffix(argument.Type.String(), "!"))
		arguments = append(arguments, argument.Name+":$"+argument.Name)
		if argument.Type.NonNull {
			variables[len(variables)-1] += "!"
		}
	}
	field := "told:" + l.field.Name + "(" + strings.Join(arguments, ",") + ")" + m.selection(l.field.Type, 3)
	if root, inner := m.root(l.on); inner {
		return "query($own:ID!," + strings.Join(variables, ",") + "){told:" + root + "(id:$own){" + field + "}}"
	}
	return strings.ToLower(l.on) + "(" + strings.Join(variables, ",") + "){" + field + "}"
}

// root is the query by which objects of a type are reached that have fields with
// arguments.
func (m *matrix) root(on string) (query string, inner bool) {
	if slices.Contains([]string{"Query", "Mutation", "Subscription"}, on) {
		return "", false
	}
	query, known := map[string]string{"Run": "run", "Conversation": "conversation", "Schedule": "schedule"}[on]
	require.True(m.t, known, "%s has fields with arguments: say how one is reached", on)
	return query, true
}

// selection is every field without arguments, to a depth.
func (m *matrix) selection(kind *ast.Type, depth int) string {
	definition := m.schema.Types[kind.Name()]
	if definition.IsLeafType() {
		return ""
	}
	fields := []string{"__typename"}
	for _, field := range definition.Fields {
		inner := m.schema.Types[field.Type.Name()]
		if strings.HasPrefix(field.Name, "__") || field.Name == "export" || len(field.Arguments) > 0 || !inner.IsLeafType() && depth == 0 {
			continue
		}
		fields = append(fields, field.Name+m.selection(field.Type, depth-1))
	}
	return "{" + strings.Join(fields, " ") + "}"
}

// values are the arguments of a field with one value at the leaf and what must
// be there besides, out of one's own things.
func (m *matrix) values(l leaf, value any, own things) map[string]any {
	if l.list {
		value = []any{value}
	}
	out := map[string]any{}
	for _, argument := range l.field.Arguments {
		m.fill(out, argument.Name, argument.Type, argument.DefaultValue != nil, l, []string{argument.Name}, value, own)
	}
	if _, inner := m.root(l.on); inner {
		out["own"] = own.ids[strings.ToLower(l.on)]
	}
	return out
}

func (m *matrix) fill(into map[string]any, name string, kind *ast.Type, defaulted bool, l leaf, path []string, value any, own things) {
	here := len(path) <= len(l.path) && slices.Equal(path, l.path[:len(path)])
	if here && len(path) == len(l.path) {
		into[name] = value
		return
	}
	scoped := name == "scope" // a name without its scope names nothing
	if !here && !scoped && (!kind.NonNull || defaulted) {
		return
	}
	definition := m.schema.Types[kind.Name()]
	switch {
	case scoped:
		into[name] = "AGENT"
	case definition.Kind == ast.InputObject:
		inner := map[string]any{}
		for _, field := range definition.Fields {
			m.fill(inner, field.Name, field.Type, field.DefaultValue != nil, l, append(slices.Clone(path), field.Name), value, own)
		}
		into[name] = inner
	case definition.Kind == ast.Enum:
		into[name] = definition.EnumValues[len(definition.EnumValues)-1].Name
	case kind.Name() == "ID":
		into[name] = own.ids[name]
	case name == "agent":
		into[name] = reconciler
	default:
		into[name] = map[string]any{"String": "some text", "Int": 1, "Boolean": true, "Time": "2026-01-01T00:00:00Z", "MicroUsd": "1", "Int64": "1", "Cursor": ""}[kind.Name()]
	}
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// near changes the last digit of every id in a text: it names nothing, and lies
// in order where the other one lies.
func near(text string) string {
	return uuids.ReplaceAllStringFunc(text, func(id string) string {
		last := map[bool]string{true: "0", false: "1"}[id[len(id)-1] != '0']
		return id[:len(id)-1] + last
	})
}

// absent is a token of the same make that names nothing.
func absent(t *testing.T, token string) string {
	return reworded(t, token, func(parts []string) {
		changed := false
		for i, part := range parts {
			parts[i] = near(part)
			changed = changed || parts[i] != part
		}
		if !changed && parts[0] != "page" { // the first page of a list is everybody's
			parts[len(parts)-1] += "-of-nobody"
		}
	})
}

// probe is what is said at a leaf: a thing of somebody else, and one that does
// not exist. For all ids that is one and the same.
type probe struct{ name, said, twin string }

// probes are all that can be tried at a leaf with somebody else's things.
func (m *matrix) probes(l leaf, theirs things, organisation string) (list []probe) {
	switch l.kind {
	case "ID":
		nothing := absent(m.t, readdressed(m.t, theirs.ids["run"], organisation))
		for kind, id := range theirs.ids {
			mine := readdressed(m.t, id, organisation)
			list = append(list, probe{kind, id, nothing}, probe{kind + " readdressed", mine, nothing})
			for _, inner := range uuids.FindAllString(bare(m.t, id), -1) {
				list = append(list, probe{kind + " bare", inner, nothing})
			}
		}
	case "Cursor":
		for kind, cursor := range theirs.cursors {
			list = append(list, probe{kind, cursor, absent(m.t, cursor)})
		}
	default:
		list = append(list, probe{l.kind, theirs.names[l.kind], theirs.names[l.kind] + "-of-nobody"})
	}
	return list
}

func bare(t *testing.T, id string) (text string) {
	reworded(t, id, func(parts []string) { text = strings.Join(parts, " ") })
	return text
}

// compare asks for somebody else's things at every leaf, as several people, and
// returns how the answers differ from those for what does not exist.
func (m *matrix) compare(people []*person, own, theirs things, organisation string) (probes int, differences []string) {
	twins := map[string]string{} // answers to what does not exist, asked for once
	for _, l := range m.leaves {
		document := m.document(l)
		for _, p := range m.probes(l, theirs, organisation) {
			for i, one := range people {
				said := string(one.post(document, m.values(l, p.said, own)))
				key := fmt.Sprint(l.place, p.twin, i)
				twin, asked := twins[key]
				if !asked {
					twin = string(one.post(document, m.values(l, p.twin, own)))
					twins[key] = twin
				}
				probes++
				require.NotContains(m.t, said, "GRAPHQL_VALIDATION_FAILED", "%s: %s", l.place, document)
				require.NotContains(m.t, said, "INTERNAL", "%s %s", l.place, p.name)
				if said != twin {
					differences = append(differences, fmt.Sprintf("%s, %s, person %d: %.300s instead of %.300s", l.place, p.name, i, said, twin))
				}
			}
		}
	}
	return probes, differences
}

// begun makes one of everything in an organisation.
func (h *house) begun(organisation, agent string) things {
	amara, tomas := h.of(organisation, asker), h.of(organisation, controller)
	conversation := amara.talk("Ours")
	asked := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Reconcile INV-1004.", "agent": reconciler})
	require.Empty(h.t, asked.UserErrors)
	approval := tomas.held(asked.Run.ID)
	second, err := amara.try("startRun", map[string]any{"agent": reconciler, "goal": "Reconcile INV-1004 or INV-1008, not INV-1004 again"})
	require.NoError(h.t, err)
	require.Empty(h.t, second.UserErrors)
	var question struct{ Question string }
	require.NoError(h.t, amara.until(second.Run.ID, "question_asked").Decode(&question))
	out := things{names: map[string]string{"agent": agent, "principal": "piet." + organisation, "node": "department/" + organisation, "persona": "voice-of-" + organisation,
		"space": "department:" + organisation, "about": "colour of " + organisation, "source": "handbook-of-" + organisation, "label": "label-of-" + organisation},
		ids: map[string]string{"run": asked.Run.ID, "conversation": conversation, "decideapproval": approval.ID,
			"answerquestion": tokenOf(h.t, "question", organisation, inner(h.t, second.Run.ID), question.Question), "agent": tokenOf(h.t, "agent", organisation, agent)}}
	out.ids["node"], out.ids["ids"], out.ids["audit"] = out.ids["run"], out.ids["run"], out.ids["run"]
	amara.remembered(out, conversation)
	out.ids["schedule"] = amara.scheduled(map[string]any{"name": "of-" + organisation, "conversation": conversation})
	var lists struct {
		Runs         struct{ Edges []struct{ Cursor string } }
		Schedules    struct{ Edges []struct{ Cursor string } }
		MemoryItems  struct{ Edges []struct{ Cursor string } }
		Conversation struct {
			Entries struct{ Edges []struct{ Cursor string } }
			Runs    struct{ Edges []struct{ Cursor string } }
		}
	}
	amara.ask(`query($id:ID!){runs(first:1){edges{cursor}} schedules(first:1){edges{cursor}} memoryItems(first:1){edges{cursor}} conversation(id:$id){entries(first:1){edges{cursor}} runs{edges{cursor}}}}`, map[string]any{"id": conversation}, &lists)
	out.cursors = map[string]string{"run": amara.until(asked.Run.ID, "approval_requested").Cursor, "runs": lists.Runs.Edges[0].Cursor,
		"entry": lists.Conversation.Entries.Edges[0].Cursor, "runs of a conversation": lists.Conversation.Runs.Edges[0].Cursor,
		"memory": lists.MemoryItems.Edges[0].Cursor, "schedules": lists.Schedules.Edges[0].Cursor}
	return out
}

// remembered lets a person remember what the names of an organisation's things
// name, and forget something.
func (p *person) remembered(in things, conversation string) {
	draft := map[string]any{"text": "The colour is green, our handbook says.", "subject": in.names["about"],
		"source": map[string]any{"kind": "DOCUMENT", "ref": in.names["source"]}}
	own := p.remember(draft)
	draft["space"] = "conversation:" + inner(p.t, conversation)
	in.ids["memory of a conversation"] = p.remember(draft)
	for _, name := range []string{"memory", "id", "items", "sources"} {
		in.ids[name] = own
	}
	gone := p.remember(map[string]any{"text": "Soon forgotten."})
	var forgotten struct {
		Done struct{ Receipt struct{ ID string } }
	}
	p.ask(`mutation($input:ForgetInput!){done:forget(input:$input){receipt{id}}}`, map[string]any{"input": map[string]any{"items": []string{gone}}}, &forgotten)
	in.ids["receipt"] = forgotten.Done.Receipt.ID
}

// remember keeps a draft and returns its id.
func (p *person) remember(draft map[string]any) string {
	var got struct {
		Done struct{ Item struct{ ID string } }
	}
	p.ask(`mutation($input:RememberInput!){done:remember(input:$input){item{id} userErrors{code message}}}`, map[string]any{"input": map[string]any{"draft": draft}}, &got)
	require.NotEmpty(p.t, got.Done.Item.ID)
	return got.Done.Item.ID
}

func inner(t *testing.T, id string) string { return uuids.FindString(bare(t, id)) }

// tokenOf is a global id.
func tokenOf(t *testing.T, parts ...string) string {
	raw, err := json.Marshal(parts)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// told is what an organisation's journal holds, by the versions of its runs.
func (h *house) told(organisation string) string {
	return string(h.of(organisation, asker).post(`{runs(first:100){edges{node{id version status}}} conversations(first:100){edges{node{id entries(first:100){edges{node{number}}}}}} schedules(first:100){edges{node{id paused next}}} kills{name} agents{name stage revision} budgets{node limit{money}} memoryItems(first:100){edges{node{id etag}}}}`, nil))
}

// twin is the same organisation under another name, with names of its own for
// an agent, a person and a department.
func twin(t *testing.T, o agents.Organisation, name string) agents.Organisation {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	text := strings.NewReplacer(`"policy-librarian"`, `"agent-`+name+`"`, `"pieter.vanacker"`, `"piet.`+name+`"`, `"procurement"`, `"`+name+`"`, `"sales-pipeline"`, `"label-of-`+name+`"`, `"friendly"`, `"voice-of-`+name+`"`).Replace(string(raw))
	var out agents.Organisation
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return renamed(t, out, name)
}

// Two organisations in one process: whatever of the other's is named, wherever
// the schema lets something be named, is answered byte for byte as what is not.
func TestFault_J10_IDsOfAnotherOrganisationAreAbsentEverywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plan{})
	h.open()
	h.apply(twin(t, h.organisation, "northwind"))
	h.apply(twin(t, h.organisation, "southwind"))
	theirs, own := h.begun("northwind", "agent-northwind"), h.begun("southwind", "agent-southwind")
	before := h.told("northwind") + h.told("southwind")
	m := newMatrix(t)
	people := []*person{h.of("southwind", asker), h.of("southwind", operator)}
	probes, differences := m.compare(people, own, theirs, "southwind")
	require.Empty(t, differences)
	fmt.Printf("level: L6 cross-tenant fields %d, ids %d, probes %d, differences %d\n", len(m.leaves), len(theirs.ids)+len(theirs.names)+len(theirs.cursors), probes, len(differences))
	require.Equal(t, before, h.told("northwind")+h.told("southwind"), "nothing was done, here or there")
	for _, p := range people {
		everything := string(p.post(`{agents{id name} conversations{edges{cursor node{id}}} runs(first:100){edges{cursor node{id subject{principal} contact{principal} actingChain{principal}}}}
			schedules{edges{cursor node{id name subject{principal}}}} memorySpaces{name} memoryItems(first:100){edges{cursor node{id subject source{ref}}}} recall(query:"What colour does the handbook say?",first:100){hits{citation item{id subject source{ref}}}}
			inbox{id run{id} approval{id}} kills{name} budgets{node} usage(groupBy:SUBJECT,from:"2020-01-01T00:00:00Z",to:"2100-01-01T00:00:00Z"){key}}`, nil))
		for _, secret := range theirs.secrets(t) {
			require.NotContains(t, everything, secret)
		}
	}
}

// secrets are the words that nobody elsewhere hears.
func (s things) secrets(t *testing.T) (words []string) {
	for _, id := range s.ids {
		words = append(words, id)
		words = append(words, uuids.FindAllString(bare(t, id), -1)...)
	}
	return slices.AppendSeq(words, maps.Values(s.names))
}

// The same inside one organisation, for who has nothing to do with a thing.
func TestFault_J10_WhatOneMayNotKnowOfIsAbsentEverywhere(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	theirs := h.begun(h.organisation.Name, reconciler)
	theirs.names = map[string]string{"agent": reconciler, "persona": "plain", "space": "person:" + asker, "about": theirs.names["about"], "source": theirs.names["source"]}
	liam := h.as(outsider)
	asked := liam.mutate("sendMessage", map[string]any{"conversation": liam.talk("Mine"), "text": "How many days of parental leave do we give?", "agent": "policy-librarian"})
	require.Empty(t, asked.UserErrors)
	liam.ended(asked.Run.ID)
	own := things{ids: map[string]string{"run": asked.Run.ID, "conversation": asked.Conversation.ID, "node": asked.Run.ID, "ids": asked.Run.ID, "audit": asked.Run.ID}, names: map[string]string{"about": "colour of " + outsider, "source": "handbook-of-" + outsider}}
	liam.remembered(own, asked.Conversation.ID)
	before := h.told(h.organisation.Name)
	m := newMatrix(t)
	m.leaves = slices.DeleteFunc(m.leaves, func(l leaf) bool {
		return l.kind == "principal" || l.kind == "node" || l.kind == "label" // whom there is, which departments and which labels, everybody there knows
	})
	probes, differences := m.compare([]*person{liam}, own, theirs, h.organisation.Name)
	require.Empty(t, differences)
	fmt.Printf("level: L7 cross-person fields %d, ids %d, probes %d, differences %d\n", len(m.leaves), len(theirs.ids)+1, probes, len(differences))
	require.Equal(t, before, h.told(h.organisation.Name))
}
