package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/results"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const briefRules = `What was said and done up to here stands in brief, to save room. Nothing of it is undone: do not do it again.`

const readRules = "A result that stands in brief is there whole: results.read with its id, such as c1, gives parts of it."

// brief shows the beginning of the run, as far as it stands in brief: a turn
// with its calls and their results as one, each text by how it begins. What
// people said to guide the run stays whole.
func (c *Compiler) brief() {
	b, started := brief{c.in.Brief}, &c.in.State.Started
	if b.Said == 0 && b.Through == 0 {
		return
	}
	lines := []string{briefRules}
	if c.reads() {
		lines = append(lines, readRules)
	}
	withheld := started.Withheld
	for i := range b.Said {
		for ; len(withheld) > 0 && withheld[0].Before <= i; withheld = withheld[1:] {
			lines = append(lines, withheld[0].Author+" said before: "+view.Redacted)
		}
		message := &started.History[i]
		lines = append(lines, c.excerpt(message.Author+" said before", message.Author, &message.Text, b.excerpt(b.Through+b.Said-1-i)))
	}
	for i := range b.Through {
		lines = append(lines, c.turnInBrief(&c.in.State.Turns[i])...)
	}
	c.say(model.Message{Role: model.User, Text: strings.Join(lines, "\n"), Earlier: true})
	for n := 1; n <= b.Through; n++ {
		c.guidance(n)
	}
	c.turns = b.Through
}

// excerpt is how many bytes are shown of each text of a turn after which so many
// more stand in brief: half as many for every few of them, and none of the
// oldest, so that what stands in brief grows by little more than a line a turn.
func (b brief) excerpt(later int) int64 {
	if shown := b.Excerpt >> min(later/halves, 62); shown >= leastExcerpt {
		return shown
	}
	return 0
}

const (
	halves       = 6
	leastExcerpt = 40
)

// brief is a run.Brief as a prompt shows it.
type brief struct{ run.Brief }

// turnInBrief is one turn with everything that belongs to it.
func (c *Compiler) turnInBrief(turn *run.Turn) []string {
	for _, remembrance := range turn.Memory {
		for _, item := range remembrance.Items {
			c.recalls.count++
			c.derived(item)
		}
	}
	shown := brief{c.in.Brief}.excerpt(c.in.Brief.Through - turn.Number)
	var lines []string
	for i := range c.in.State.Steers {
		if steer := &c.in.State.Steers[i]; steer.From != "" && steer.Disposition == run.Absorbed && steer.Turn == turn.Number {
			lines = append(lines, c.excerpt("Beside it "+steer.By.Principal+" found", steer.By.Principal, &steer.Text, shown))
		}
	}
	lines = append(lines, c.excerpt(fmt.Sprintf("Turn %d, your answer (%s)", turn.Number, turn.Answer.Class), c.in.State.Started.Acting(), turn.Answer.Text, shown))
	for ordinal := turn.FirstCall; ordinal > 0 && ordinal <= turn.LastCall; ordinal++ {
		lines = append(lines, c.callInBrief(ordinal, c.in.State.Call(ordinal), shown)...)
	}
	for _, check := range failedChecks(turn) {
		lines = append(lines, "The answer did not pass the check "+check.Name+".")
	}
	return lines
}

func (c *Compiler) callInBrief(ordinal int, call *run.Call, shown int64) []string {
	name := fmt.Sprintf("c%d %s", ordinal, call.Tool)
	came := name + " came to " + string(call.Outcome)
	if call.Code != "" && call.Code != string(call.Outcome) {
		came += " (" + call.Code + ")"
	}
	var lines []string
	if shown > 0 {
		lines = append(lines, c.excerpt(name+" was asked", call.Tool, &call.Arguments, shown))
	}
	if result, ok := RecallOf(call, c.in.Texts); ok { // it is shown as it is now, or not at all
		for _, hit := range result.Hits {
			c.derived(hitOf(hit))
		}
		return append(lines, fmt.Sprintf("%s with %d items; ask memory again for what you need of them.", came, len(result.Hits)))
	}
	return append(append(lines, c.excerpt(came, call.Tool, call.Result, shown)), c.unshown(call)...)
}

// excerpt is how a text begins, as data: also one that a person said, of which
// it is only a part.
func (c *Compiler) excerpt(says, source string, ref *run.Text, most int64) string {
	if ref == nil {
		return says + "."
	}
	body := c.text(ref)
	shown := head(body, most)
	switch {
	case shown == "":
		return fmt.Sprintf("%s, %d bytes.", says, len(body))
	case len(shown) < len(body):
		says = fmt.Sprintf("%s, the first %d of %d bytes", says, len(shown), len(body))
	}
	return says + ":\n" + c.block(source, ref, shown)
}

// derived notes an item from which something in the prompt was made, and which
// does not stand there itself.
func (c *Compiler) derived(item run.Recalled) {
	c.recalls.stand = append(c.recalls.stand, standing{item, c.in.stands(item)})
}

// hitOf is a hit of memory.recall as a run knows what it recalled.
func hitOf(hit tool.RecalledHit) run.Recalled {
	return run.Recalled{Item: hit.ID, Space: string(hit.Space), Etag: hit.Etag, Marking: policy.Marking{Labels: hit.Labels, Integrity: hit.Integrity}}
}

// reads reports whether the run has the tool that reads results.
func (c *Compiler) reads() bool {
	for _, spec := range c.tools {
		if spec.Name == results.Name {
			return true
		}
	}
	return false
}

// result is what a tool gave, as data: whole, or how it begins and ends where it
// has more bytes than a prompt shows.
func (c *Compiler) result(call *run.Call) string {
	body, most := c.text(call.Result), c.in.shownBytes()
	if most == 0 || int64(len(body)) <= most {
		return c.data(call.Tool, call.Result)
	}
	begins, ends := head(body, most-most/4), tail(body, most/4)
	gap := fmt.Sprintf("… %d of %d bytes are left out here.", len(body)-len(begins)-len(ends), len(body))
	if c.reads() {
		gap += fmt.Sprintf(" %s gives them: {\"result\":\"c%d\",\"offset\":%d}", results.Name, call.CallProposed.Call, len(begins))
	}
	return c.wrap(call.Tool, call.Result, begins) + "\n" + gap + "\n" + c.wrap(call.Tool, call.Result, ends)
}

// shownBytes is how much of one result stands in the prompt, 0 for all of it.
func (in Input) shownBytes() int64 {
	if in.Brief.Result > 0 && (in.ResultBytes == 0 || in.Brief.Result < in.ResultBytes) {
		return in.Brief.Result
	}
	return in.ResultBytes
}

// head is the first bytes of a text, and tail the last, both without a part of a
// character.
func head(text string, most int64) string {
	if int64(len(text)) <= most {
		return text
	}
	end := int(max(most, 0))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func tail(text string, most int64) string {
	begin := max(len(text)-int(max(most, 0)), 0)
	for begin < len(text) && !utf8.RuneStart(text[begin]) {
		begin++
	}
	return text[begin:]
}
