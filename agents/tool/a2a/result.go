package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// question is what a person is shown to answer an agent: it asks in words.
var question = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","maxLength":65536}},"required":["answer"]}`)

// outcome is what an agent's last word means.
func (c *call) outcome(last protocol.Event) (tool.Result, error) {
	if message, is := last.(*protocol.Message); is {
		return c.parts(false, message.Parts), nil
	}
	task, is := last.(*protocol.Task)
	if !is {
		return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "the agent answered with neither a message nor a task"}
	}
	var words protocol.ContentParts
	if task.Status.Message != nil {
		words = task.Status.Message.Parts
	}
	switch task.Status.State {
	case protocol.TaskStateCompleted:
		var all []protocol.ContentParts
		for _, artifact := range task.Artifacts {
			if artifact != nil {
				all = append(all, artifact.Parts)
			}
		}
		if len(all) == 0 {
			all = append(all, words)
		}
		return c.parts(false, all...), nil
	case protocol.TaskStateInputRequired:
		return c.asks(task, words)
	case protocol.TaskStateRejected:
		return c.parts(true, words), nil
	case protocol.TaskStateAuthRequired:
		return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedCredential, Detail: "the agent asks for a further authorization, which is not given here"}
	}
	got := c.parts(true, words)
	if c.definition.Class.OrWorst() == policy.ClassRead {
		return got, nil
	}
	// It failed, or was stopped: which does not say that nothing was done.
	return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedStatus, Detail: "the agent's task ended in " + string(task.Status.State), Reply: &got}
}

// asks hands an agent's question to a person.
func (c *call) asks(task *protocol.Task, words protocol.ContentParts) (tool.Result, error) {
	state, err := json.Marshal(place{task.ID, task.ContextID})
	if err != nil {
		return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "the agent's task has no usable id"}
	}
	said := c.parts(false, words)
	const most = 4 << 10 // bytes of a question
	text := string(bytes.ToValidUTF8(said.Content[:min(len(said.Content), most)], nil))
	return tool.Result{Ask: &tool.Ask{Origin: c.definition.Name, Kind: tool.AskForm, Message: text, Schema: question, State: state}, Marking: said.Marking}, nil
}

// said is a result of our own words.
func (c *call) said(text string, failed bool) tool.Result {
	return c.parts(failed, protocol.ContentParts{protocol.NewTextPart(text)})
}

// parts is a result of what an agent sent, no longer than the contract keeps.
// What is no text is described: what it is, how long and which.
func (c *call) parts(failed bool, all ...protocol.ContentParts) tool.Result {
	var text bytes.Buffer
	var size int64
	limit := c.definition.ResultBytes
	for _, parts := range all {
		for _, part := range parts {
			if part == nil {
				continue
			}
			line := described(part)
			size += int64(len(line))
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			text.WriteString(line[:min(len(line), max(0, limit+1-text.Len()))])
		}
	}
	marking := c.definition.Result
	marking.Integrity = policy.Untrusted
	return tool.Result{Content: text.Bytes(), MediaType: tool.MediaText, Failed: failed, Size: max(size, int64(text.Len())), Cut: text.Len() > limit, Marking: marking}
}

func described(part *protocol.Part) string {
	switch content := part.Content.(type) {
	case protocol.Text:
		return string(content)
	case protocol.Data:
		raw, err := json.Marshal(content.Value)
		if err != nil {
			return "[data that cannot be written]"
		}
		return string(raw)
	case protocol.Raw:
		return fmt.Sprintf("[file %q of %q: %d bytes, SHA-256 %x]", part.Filename, part.MediaType, len(content), sha256.Sum256(content))
	case protocol.URL:
		return fmt.Sprintf("[link to %q]", string(content))
	}
	return "[a part of a kind that is not known]"
}
