// Package account gives an account of a run from its journal alone: in words
// for people, and as a chain that can be checked offline. It is pure.
package account

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
)

// Answer is what the journal says to one question.
type Answer struct {
	Question string
	Lines    []string
}

// Reader returns a text as the viewer may read it.
type Reader func(text run.Text) string

// Explain answers the six questions that everybody asks about a run.
func Explain(s *run.State, read Reader) []Answer {
	e := explainer{s: s, read: read}
	return []Answer{
		answer("What was asked?", e.asked()),
		answer("Which turns happened?", e.turns()),
		answer("Which calls were proposed, and which ran?", e.calls()),
		answer("Which policies and people intervened?", e.interventions()),
		answer("What came back?", e.results()),
		answer("Why did it stop?", e.stop()),
	}
}

// Turn is what the model saw in one turn: the texts that had entered by then.
func Turn(s *run.State, number int, read Reader) (Answer, bool) {
	if number < 1 || number > len(s.Turns) {
		return Answer{}, false
	}
	e := explainer{s: s, read: read}
	turn := s.Turns[number-1]
	var lines []string
	said := func(author, text string) { lines = append(lines, "said before by "+author+": "+text) }
	withheld := s.Started.Withheld
	for i, message := range s.Started.History {
		for ; len(withheld) > 0 && withheld[0].Before <= i; withheld = withheld[1:] {
			said(withheld[0].Author, "[redacted]")
		}
		said(message.Author, read(message.Text))
	}
	for _, message := range withheld {
		said(message.Author, "[redacted]")
	}
	if b := brief(briefAt(s, number)); b != "" {
		lines = append(lines, "of what follows stood in brief: "+b)
	}
	lines = append(lines, seen(s, number)...)
	lines = append(lines, "goal: "+read(s.Started.Goal))
	for i := range s.Calls {
		if call := &s.Calls[i]; call.Turn < number {
			lines = append(lines, fmt.Sprintf("call %d %s → %s %s", call.CallProposed.Call, call.Tool, call.Outcome, e.optional(call.Result)))
		}
	}
	for _, steer := range s.Steers {
		if steer.Turn > 0 && steer.Turn <= number {
			lines = append(lines, "steer by "+steer.By.Principal+": "+read(steer.Text))
		}
	}
	if turn.Answer != nil {
		lines = append(lines, "answered "+string(turn.Answer.Class)+": "+e.optional(turn.Answer.Text))
	}
	return answer(fmt.Sprintf("What did the model see in turn %d?", number), lines), true
}

// seen are the remembered items that the prompt of a turn had.
func seen(s *run.State, number int) []string {
	items := slices.Clone(s.Started.Snapshot.Memory)
	for _, turn := range s.Turns[:number] {
		for _, remembrance := range turn.Memory {
			items = append(items, remembrance.Items...)
		}
	}
	lines := make([]string, len(items))
	for i, item := range items {
		lines[i] = fmt.Sprintf("from memory: m%d %s", i+1, item.Item)
	}
	return lines
}

// answer leaves out what nothing follows: blanks at the end of a line, and empty
// lines.
func answer(question string, lines []string) Answer {
	var said []string
	for _, line := range lines {
		if line = strings.TrimRight(line, " "); line != "" {
			said = append(said, line)
		}
	}
	return Answer{question, said}
}

type explainer struct {
	s    *run.State
	read Reader
}

func (e explainer) optional(text *run.Text) string {
	if text == nil {
		return ""
	}
	return e.read(*text)
}

func (e explainer) asked() []string {
	s := e.s.Started
	order := e.read(s.Goal)
	if s.Said != nil {
		order = fmt.Sprintf("%s gave it the turn in entry %d of the conversation, with: %s", s.Said.By, s.Said.Entry, order)
	}
	lines := []string{
		fmt.Sprintf("%s (%s) asked agent %s, revision %.12s: %s", s.Subject.ID, s.Subject.Department, s.Agent.Name, s.Agent.Revision, order),
		"acts as " + strings.Join(s.Chain, ", then "),
		fmt.Sprintf("sealed inputs %.12s, policy %.12s, stage %s, budget %d micro-dollars and %d tokens",
			s.SnapshotDigest, s.Snapshot.Policy, s.Authority.Stage, s.Authority.MicroUSD, s.Authority.Tokens),
		"may use " + strings.Join(tools(s.Authority), ", "),
	}
	lines = append(append(lines, e.begunWith()...), e.handedOn()...)
	lines = append(lines, recalled("its goal", 0, run.Remembrance{Items: s.Snapshot.Memory, Missing: s.Snapshot.MemoryMissing})...)
	switch {
	case s.By.Issuer == schedule.Issuer:
		lines[1] = "begun by schedule " + s.By.TokenID + " of " + s.By.Principal + "; " + lines[1]
	case s.By.Principal != "":
		lines[1] = "sent by " + s.By.Principal + " with a token of " + s.By.Issuer + "; " + lines[1]
	}
	return lines
}

// handedOn says by which runs above it a run came about, and for what.
func (e explainer) handedOn() []string {
	s := e.s.Started
	if len(s.Lineage) == 0 {
		return nil
	}
	line := make([]string, len(s.Lineage))
	for i, link := range s.Lineage {
		line[i] = fmt.Sprintf("%s in run %s", link.Agent, link.Run) + under(link.Grant)
	}
	lines := []string{"handed on by " + strings.Join(line, ", then by ")}
	if s.Grant != "" {
		lines = append(lines, "works"+under(s.Grant))
	}
	if task := s.Task; task != nil && task.Call > 0 {
		lines = append(lines, fmt.Sprintf("does call %d of run %s, whose result has at most %d bytes", task.Call, s.Parent, task.ResultBytes))
	} else if task != nil {
		lines = append(lines, "beside run "+s.Parent+purpose(task)+", its result goes there as "+string(task.Lands))
	}
	return lines
}

// purpose says what a run beside another one is for; a sub-agent does a piece of
// work and no more is said of it.
func purpose(task *run.Task) string {
	if task.Purpose == "" {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(" for %s %s", task.Purpose, task.Review), " ")
}

// under names the grant by which a run may do more than the one above it.
func under(grant string) string {
	if grant == "" {
		return ""
	}
	return " under grant " + grant
}

// recalled says what was recalled for something, by ids alone. Marks go on
// after those that were given before.
func recalled(what string, marks int, r run.Remembrance) []string {
	var lines []string
	if len(r.Items) > 0 {
		items := make([]string, len(r.Items))
		for i, item := range r.Items {
			items[i] = fmt.Sprintf("m%d %s", marks+i+1, item.Item)
		}
		lines = append(lines, "for "+what+" it recalled "+strings.Join(items, ", "))
	}
	if len(r.Missing) > 0 {
		lines = append(lines, "for "+what+" memory could not be asked in full: "+strings.Join(r.Missing, ", "))
	}
	return lines
}

// tools are those of an authority, by name.
func tools(a policy.Authority) []string {
	list := make([]string, 0, len(a.Tools))
	for _, name := range slices.Sorted(maps.Keys(a.Tools)) {
		list = append(list, fmt.Sprintf("%s (%s, %d×)", name, a.Tools[name].Impact, a.Tools[name].Calls))
	}
	if len(list) == 0 {
		return []string{"no tool"}
	}
	return list
}

func (e explainer) turns() []string {
	lines := make([]string, 0, len(e.s.Turns))
	marks := len(e.s.Started.Snapshot.Memory)
	for _, turn := range e.s.Turns {
		lines = append(lines, shortened(e.s, turn.Number)...)
		for _, remembrance := range turn.Memory {
			lines = append(lines, recalled(fmt.Sprintf("turn %d", turn.Number), marks, remembrance)...)
			marks += len(remembrance.Items)
		}
		line := fmt.Sprintf("turn %d with %s (%s), attempt %d: %s", turn.Number, cmp.Or(turn.First, "no model"), turn.Why, turn.Attempt, turn.Phase)
		if a := turn.Answer; a != nil {
			line = fmt.Sprintf("turn %d with %s (%s): %s, %d tokens, %d micro-dollars", turn.Number, turn.First, turn.Why, a.Class, a.Cost.Tokens, a.Cost.MicroUSD)
		}
		lines = append(append(append(lines, line+used(turn)), hedged(turn)...), offers(turn)...)
	}
	return lines
}

func (e explainer) calls() []string {
	lines := make([]string, 0, len(e.s.Calls))
	for i := range e.s.Calls {
		call := &e.s.Calls[i]
		ran := "did not run"
		if call.Intent > 0 {
			ran = fmt.Sprintf("attempted %d×", call.Intent)
		}
		if child := e.s.Child(call.Child); child != nil {
			ran += fmt.Sprintf(" by agent %s as run %s with %d micro-dollars", child.Agent, call.Child, child.Carve.MicroUSD)
		}
		lines = append(lines, fmt.Sprintf("call %d of turn %d: %s %s — %s, %s (%s, %s)", call.CallProposed.Call, call.Turn, call.Tool,
			e.read(call.Arguments), ran, stands(call), call.Impact.OrWorst(), call.Class.OrWorst()))
	}
	return lines
}

func stands(call *run.Call) string {
	if call.Phase == run.CallDone {
		return string(call.Outcome)
	}
	return string(call.Phase)
}

func (e explainer) interventions() []string {
	lines := append(e.verdicts(), e.decisions()...)
	lines = append(append(lines, e.accesses()...), e.answers()...)
	lines = append(lines, e.findings()...)
	lines = append(lines, e.beside()...)
	for _, steer := range e.s.Steers {
		lines = append(lines, fmt.Sprintf("%s %s (%s): %s", steer.By.Principal, steering(steer), steer.Disposition, e.read(steer.Text)))
	}
	if cancel := e.s.Cancel; cancel != nil {
		lines = append(lines, fmt.Sprintf("%s cancelled the run: %s", cancel.By.Principal, e.optional(cancel.Reason)))
	}
	if len(lines) == 0 {
		return []string{"nobody had to"}
	}
	return lines
}

// verdicts are what policy said of each call, and why.
func (e explainer) verdicts() []string {
	var lines []string
	for i := range e.s.Calls {
		call := &e.s.Calls[i]
		if call.Verdict.Answer == "" {
			continue
		}
		var why []string
		for _, reason := range call.Verdict.Reasons {
			why = append(why, fmt.Sprintf("%s (%s)", reason.Policy, reason.Text))
		}
		if len(why) == 0 {
			why = []string{"no policy of its own"}
		}
		lines = append(lines, fmt.Sprintf("call %d: %s by %s, policy %.12s", call.CallProposed.Call, call.Verdict.Answer, strings.Join(why, ", "), call.Verdict.Revision))
	}
	return lines
}

// decisions are what became of the approvals.
func (e explainer) decisions() []string {
	var lines []string
	for _, approval := range e.s.Approvals {
		for _, decision := range approval.Decisions {
			word := "denied"
			if decision.Granted {
				word = "granted"
			}
			lines = append(lines, fmt.Sprintf("call %d: %s %s it (digest %.12s over arguments %.12s) %s", approval.Call, speaker(decision.By), word, approval.Digest,
				e.arguments(approval.Call), e.optional(decision.Reason)))
		}
		if approval.Status == run.ApprovalVoid {
			lines = append(lines, fmt.Sprintf("call %d: the approval became void: %s", approval.Call, approval.Cause))
		}
	}
	return lines
}

// speaker names who spoke, and for whom as a deputy.
func speaker(by run.Identity) string {
	if by.OnBehalfOf != "" {
		return by.Principal + " as the deputy of " + by.OnBehalfOf
	}
	return by.Principal
}

// arguments is the commitment to the exact bytes of a call's arguments.
func (e explainer) arguments(call int) string {
	if c := e.s.Call(call); c != nil {
		return c.Arguments.Commitment
	}
	return ""
}

// answers are what people said to the model, and to servers that asked.
func (e explainer) answers() []string {
	var lines []string
	for _, question := range e.s.Questions {
		if ask := question.Ask; ask != nil {
			line := fmt.Sprintf("call %d: server %s asked (%s): %s", question.Call, ask.Origin, ask.Kind, short(e.optional(ask.Form)))
			if ask.Declined != "" {
				line = fmt.Sprintf("call %d: server %s asked what is shown to nobody: %s", question.Call, ask.Origin, ask.Declined)
			}
			lines = append(lines, line)
		}
		if question.Answer != nil {
			action := ""
			if question.Answer.Action != "" {
				action = string(question.Answer.Action) + " "
			}
			lines = append(lines, fmt.Sprintf("call %d: %s answered: %s%s", question.Call, speaker(question.Answer.By), action, e.read(question.Answer.Answer)))
		}
	}
	return lines
}

// findings are what people found out about uncertain calls.
func (e explainer) findings() []string {
	var lines []string
	for i := range e.s.Calls {
		for _, finding := range e.s.Calls[i].Resolutions {
			lines = append(lines, fmt.Sprintf("call %d: %s found %s: %s", finding.Call, speaker(finding.By), finding.Resolution, e.read(finding.Evidence)))
		}
	}
	return lines
}

func (e explainer) results() []string {
	var lines []string
	for i := range e.s.Calls {
		call := &e.s.Calls[i]
		switch {
		case call.Result != nil:
			outcome := string(call.Outcome)
			if child := e.s.Child(call.Child); child != nil && child.Ended != nil && child.Ended.Unverified {
				outcome += ", unverified: the word of its model alone"
			}
			lines = append(lines, fmt.Sprintf("call %d %s: %s", call.CallProposed.Call, outcome, short(e.read(*call.Result))))
		case call.Intent > 0:
			lines = append(lines, fmt.Sprintf("call %d %s, without a result", call.CallProposed.Call, stands(call)))
		}
		for _, m := range call.Media {
			lines = append(lines, fmt.Sprintf("call %d also gave %s of %d bytes", call.CallProposed.Call, m.MediaType, m.Bytes))
		}
		for _, late := range call.Late {
			lines = append(lines, fmt.Sprintf("call %d, attempt %d, too late to count: %s: %s", call.CallProposed.Call, late.Intent, late.Outcome, short(e.optional(late.Result))))
		}
	}
	return lines
}

func (e explainer) stop() []string {
	s := e.s
	switch {
	case s.Ended != nil:
		lines := append([]string{fmt.Sprintf("%s: %s", s.Ended.Status, told(string(s.Ended.Reason), s.Ended.Code))}, e.checks()...)
		if s.Ended.By != nil && len(s.Ended.Accepted) > 0 {
			lines = append(lines, fmt.Sprintf("%s accepted it with these checks open: %s", s.Ended.By.Principal, strings.Join(s.Ended.Accepted, ", ")))
		}
		if s.Ended.Unverified {
			lines = append(lines, "unverified: no call was made and no check looked outside; the result is the word of its model alone")
		}
		return append(lines, fmt.Sprintf("settled %d micro-dollars and %d tokens; unknown %d", s.Ended.Settled.MicroUSD, s.Ended.Settled.Tokens, s.Ended.Unknown.MicroUSD),
			short(e.optional(s.Ended.Result)))
	case s.Parked != nil:
		return append([]string{"parked: " + told(s.Parked.Code, s.Parked.Detail)}, e.checks()...)
	case s.Reached != nil:
		return append([]string{"waits at limit " + string(s.Reached.Limit) + ": " + s.Reached.Detail}, e.checks()...)
	}
	lines := []string{"it has not stopped: " + string(s.Status)}
	if s.Outage != nil {
		lines = append(lines, outage(s.Outage)...)
	}
	for _, child := range s.Children {
		if child.Live() {
			lines = append(lines, fmt.Sprintf("waits for run %s of agent %s", child.Child, child.Agent))
		}
	}
	return append(lines, e.checks()...)
}

// checks are what the last look at the outside found.
func (e explainer) checks() []string {
	if e.s.LastChecks == nil {
		return nil
	}
	lines := make([]string, 0, len(e.s.LastChecks.Checks))
	for _, check := range e.s.LastChecks.Checks {
		lines = append(lines, fmt.Sprintf("check %s: %s", check.Name, told(string(check.Verdict), check.Code)))
	}
	return lines
}

// told is a word and, where it says more, a code.
func told(word, code string) string {
	if code == "" || code == word {
		return word
	}
	return word + " " + code
}

func short(text string) string {
	const most = 400
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
