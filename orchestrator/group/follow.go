package group

import (
	"slices"
	"strings"
)

// exchange is what one message of a person set in motion.
type exchange struct {
	origin  uint64
	subject string
	rule    Rule
	queue   []Turn   // who comes next, in order
	running string   // id of the run that has the turn, empty for none
	agents  []string // who had a turn, in order
	answers []string // what they said, simplified
	closed  bool     // nobody gets a turn any more
}

func (x *exchange) over() bool { return x.running == "" && len(x.queue) == 0 }

// table is a conversation as it stands after some lines.
type table struct {
	conversation string
	agents       []string // that take part, in the order in which they joined
	rule         Rule
	exchanges    []*exchange
	asked        map[string]Line // messages that began or steered a run, by its id
}

// Follow returns what is due after the lines of a conversation, in the order of
// their numbers. Of those up to an entry that an earlier reading found settled,
// only who joined and left and the rules are needed.
func Follow(conversation string, lines []Line) Due {
	t := &table{conversation: conversation, rule: Rule{}.Completed(), asked: map[string]Line{}}
	due := Due{}
	for _, line := range lines {
		t.add(line)
		due.Settled = line.Number
	}
	for _, x := range t.exchanges {
		if x.over() {
			continue
		}
		due.Settled = min(due.Settled, x.origin-1)
		if x.running != "" {
			continue
		}
		if reason := x.circles(); reason != "" {
			due.Stops = append(due.Stops, Stop{Exchange: x.origin, Agent: x.queue[0].Agent, Reason: reason})
		} else {
			due.Turns = append(due.Turns, x.queue[0])
		}
	}
	return due
}

// Standing is who of the agents takes part after the lines, in the order in
// which they joined, and which rule holds.
func Standing(lines []Line) (agents []string, rule Rule) {
	t := &table{rule: Rule{}.Completed(), asked: map[string]Line{}}
	for _, line := range lines {
		t.add(line)
	}
	return t.agents, t.inForce()
}

func (t *table) add(line Line) {
	switch line.Kind {
	case Message:
		t.say(line)
	case RunStarted:
		t.begin(line)
	case RunEnded:
		t.answer(line)
	case Joined:
		if IsAgent(line.Whom) && !slices.Contains(t.agents, line.Whom) {
			t.agents = append(t.agents, line.Whom)
		}
	case Left:
		t.leave(line.Whom)
	case TurnsSet:
		t.rule = Rule{Kind: Kind(line.Code), Agent: line.Whom, Most: int(line.About)}.Completed()
	case Refused:
		if x := t.exchange(line.About); x != nil && len(x.queue) > 0 && x.queue[0].Agent == line.Whom {
			x.queue = x.queue[1:]
		}
	case Stopped:
		if x := t.exchange(line.About); x != nil {
			x.queue, x.closed = nil, true
		}
	}
}

// inForce is the rule as it can hold: where the one that answers takes no part
// any more, who is mentioned answers.
func (t *table) inForce() Rule {
	if t.rule.Kind == ByName && !slices.Contains(t.agents, t.rule.Agent) {
		return Rule{Kind: ByMention, Most: t.rule.Most}
	}
	return t.rule
}

// say lets a person's message begin an exchange. One that was addressed to a run
// gives no turn by the rule: it has its answer.
func (t *table) say(line Line) {
	if IsAgent(line.Author) {
		return
	}
	if line.Run != "" {
		t.asked[line.Run] = line
		return
	}
	x := &exchange{origin: line.Number, subject: line.Author, rule: t.inForce()}
	switch x.rule.Kind {
	case InRound:
		x.give(line, t.agents, false)
	case ByName:
		x.give(line, []string{x.rule.Agent}, false)
	default:
		x.give(line, t.mentioned(line), false)
	}
	if !x.over() {
		t.exchanges = append(t.exchanges, x)
	}
}

// mentioned are the agents that take part and that a line mentions.
func (t *table) mentioned(line Line) (agents []string) {
	for _, name := range Mentions(line.Text) {
		if id := agentIDs + name; id != line.Author && slices.Contains(t.agents, id) {
			agents = append(agents, id)
		}
	}
	return agents
}

// give puts agents at the end of the line, unless they wait in it.
func (x *exchange) give(line Line, agents []string, repeats bool) {
	for _, agent := range agents {
		if !slices.ContainsFunc(x.queue, func(t Turn) bool { return t.Agent == agent }) {
			x.queue = append(x.queue, Turn{Exchange: x.origin, Subject: x.subject, Entry: line.Number, By: line.Author,
				Agent: agent, AtMs: line.AtMs, repeats: repeats})
		}
	}
}

// begin notes that a run has the turn: one that was due, or one that a person
// began by name, which begins an exchange, too.
func (t *table) begin(line Line) {
	for _, x := range t.exchanges {
		if len(x.queue) > 0 && x.queue[0].Run(t.conversation) == line.Run {
			x.running, x.agents, x.queue = line.Run, append(x.agents, x.queue[0].Agent), x.queue[1:]
			return
		}
	}
	if asked, direct := t.asked[line.Run]; direct {
		t.exchanges = append(t.exchanges, &exchange{origin: asked.Number, subject: asked.Author, rule: t.inForce(),
			running: line.Run, agents: []string{line.Author}})
	}
}

// answer ends a turn. Whom the answer mentions comes next, except in a round.
func (t *table) answer(line Line) {
	at := slices.IndexFunc(t.exchanges, func(x *exchange) bool { return x.running == line.Run })
	if at < 0 {
		return
	}
	x := t.exchanges[at]
	x.running = ""
	said := strings.ToLower(strings.Join(strings.Fields(line.Text), " "))
	repeats := said != "" && slices.Contains(x.answers, said)
	x.answers = append(x.answers, said)
	if x.rule.Kind != InRound && !x.closed {
		x.give(line, t.mentioned(line), repeats)
	}
}

// leave takes the turns that are still to be given from an agent, or from all
// who would take them for a person.
func (t *table) leave(whom string) {
	t.agents = slices.DeleteFunc(t.agents, func(id string) bool { return id == whom })
	for _, x := range t.exchanges {
		x.queue = slices.DeleteFunc(x.queue, func(turn Turn) bool { return turn.Agent == whom || turn.Subject == whom })
		x.closed = x.closed || x.subject == whom
	}
}

func (t *table) exchange(origin uint64) *exchange {
	at := slices.IndexFunc(t.exchanges, func(x *exchange) bool { return x.origin == origin })
	if at < 0 {
		return nil
	}
	return t.exchanges[at]
}

// circles says why the next turn is not given. What a person asked for is not
// held against the agents that answered before.
func (x *exchange) circles() Reason {
	next := x.queue[0]
	switch {
	case len(x.agents) >= x.rule.Most:
		return TurnLimit
	case IsAgent(next.By) && next.repeats:
		return SameAnswer
	case IsAgent(next.By) && alternating(append(slices.Clone(x.agents), next.Agent)) > pairMost:
		return BackAndForth
	}
	return ""
}

// alternating is how many of the last turns two agents took by turns.
func alternating(agents []string) int {
	n := len(agents)
	length := min(n, 2)
	for i := n - 3; i >= 0 && agents[i] == agents[i+2]; i-- {
		length++
	}
	return length
}
