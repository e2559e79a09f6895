package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/agents/research"
)

// The tools by which findings are looked for and kept.
const (
	recallTool = "memory.recall"
	recordTool = "findings.record"
)

// dialogue is what a prompt says to an agent that brings findings.
type dialogue struct {
	findings bool // findings with citations are asked for
	offered  map[string]bool
	goal     string
	data     []string // bodies of the blocks of data that came with the goal
	replies  []reply
	most     int // bytes of an answer; 0 for no bound
}

// reply is what came of one call.
type reply struct {
	tool string
	text string
	done bool // the call happened
}

func read(request model.Request) dialogue {
	d := dialogue{offered: map[string]bool{}, most: int(request.MaxTokens) * model.BytesPerToken}
	for _, spec := range request.Tools {
		d.offered[spec.Name] = true
	}
	tools := map[string]string{}
	for _, message := range request.Messages {
		switch message.Role {
		case model.System:
			d.findings = d.findings || asksForFindings(message.Text)
		case model.User:
			d.said(message)
		case model.Assistant:
			for _, call := range message.Calls {
				tools[call.ID] = call.Name
			}
		case model.ToolReply:
			text, done := outcome(message.Text)
			d.replies = append(d.replies, reply{tool: tools[message.CallID], text: text, done: done})
		}
	}
	d.findings = d.findings && d.offered[recordTool]
	return d
}

// said keeps the goal, which comes first, and the data that stands beside it.
func (d *dialogue) said(message model.Message) {
	blocks := model.Blocks(message.Text)
	for _, block := range blocks {
		d.data = append(d.data, block.Body)
	}
	if message.Earlier || d.goal != "" {
		return
	}
	d.goal = message.Text
	if _, inputs := research.ReadBrief(d.goal); len(inputs) == 0 && len(blocks) > 0 && strings.HasPrefix(d.goal, "[[data ") {
		d.goal = blocks[0].Body
	}
}

// asksForFindings reports whether a text holds the form of findings.
func asksForFindings(text string) bool {
	return strings.Contains(text, `"findings"`) && strings.Contains(text, `"citations"`)
}

// results are the results of branches that were given with the goal.
func (d *dialogue) results() (results []research.Result) {
	for _, body := range d.data {
		if result, ok := research.ReadResult([]byte(body)); ok {
			results = append(results, result)
		}
	}
	return results
}

// last is what came of the last call of a tool.
func (d *dialogue) last(tool string) (last reply, asked bool) {
	for _, one := range d.replies {
		if one.tool == tool {
			last, asked = one, true
		}
	}
	return last, asked
}

// undone is how the platform begins to say that a call gave nothing.
var undone = regexp.MustCompile(`^(FAILED|REFUSED|FORBIDDEN|DENIED|EXPIRED|VOID|SIMULATED|UNKNOWN): `)

// outcome is what a call gave, and whether it did what it was asked.
func outcome(text string) (given string, done bool) {
	if undone.MatchString(text) {
		return text, false
	}
	return model.Unwrap(text), true
}

// shortQuote is how many bytes there are of each text in an answer that would
// not fit otherwise: the whole stands in what was recorded.
const shortQuote = 120

// given answers with a result.
func (d *dialogue) given(result research.Result) model.Answer {
	if result.Findings == nil {
		result.Findings = []research.Finding{}
	}
	if result.NotFound == nil {
		result.NotFound = []string{}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return declined("what was found cannot be written")
	}
	if d.most > 0 && len(text) > d.most {
		text, _ = json.Marshal(shortened(result)) // as above
	}
	return said(string(text))
}

func shortened(result research.Result) research.Result {
	findings := make([]research.Finding, len(result.Findings))
	for n, finding := range result.Findings {
		finding.Text = cut(finding.Text, shortQuote)
		finding.Citations = slices.Clone(finding.Citations[:min(1, len(finding.Citations))])
		for i := range finding.Citations {
			finding.Citations[i].Quote = cut(finding.Citations[i].Quote, shortQuote)
		}
		findings[n] = finding
	}
	result.Findings = findings
	return result
}

// declined says why there is no answer.
func declined(why string) model.Answer {
	return model.Answer{Finish: model.FinishRefusal, Text: selfDescription + " I cannot answer: " + why + "."}
}

// recorded is what findings.record says that it kept.
type recorded struct {
	Recorded []research.Finding `json:"recorded"`
	Dropped  []research.Dropped `json:"dropped"`
}

// proposal is a finding as it is proposed to be kept.
type proposal struct {
	Text      string              `json:"text"`
	Citations []research.Citation `json:"citations"`
}

func record(question string, proposals []proposal) model.Answer {
	return calls(recordTool, map[string]any{"subject": cut(question, subjectBytes), "findings": proposals})
}

const subjectBytes = 200

// cut is the beginning of a text, in whole characters.
func cut(text string, most int) string {
	return strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
