package prompt

import (
	"gantry.dev/agents/model"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// history says what was said in the conversation before. The agent's own words
// come back as such; those of everybody else name who spoke.
func (c *Compiler) history() {
	started := &c.in.State.Started
	unread, brief := started.Withheld, c.in.Brief.Said
	for len(unread) > 0 && unread[0].Before < brief {
		unread = unread[1:]
	}
	for i, message := range started.History {
		if i < brief {
			continue
		}
		unread = c.unread(unread, i)
		switch message.Author {
		case started.Acting():
			c.say(model.Message{Role: model.Assistant, Text: c.data(message.Author, &message.Text), Earlier: true})
		case started.Subject.ID:
			c.say(model.Message{Role: model.User, Text: message.Author + ": " + c.data(message.Author, &message.Text), Earlier: true})
		default:
			c.say(model.Message{Role: model.User, Text: message.Author + ": " + c.others(message.Author, &message.Text), Earlier: true})
		}
	}
	c.unread(unread, len(started.History))
}

// unread says of messages that the run may not read that they were there, up to
// a place in the history, and returns the rest.
func (c *Compiler) unread(messages []run.Withheld, before int) []run.Withheld {
	for len(messages) > 0 && messages[0].Before <= before {
		c.say(model.Message{Role: model.User, Text: messages[0].Author + ": " + view.Redacted, Earlier: true})
		messages = messages[1:]
	}
	return messages
}

// others shows what somebody said who does not command the run. It is data,
// whoever it is: only so can no text pass for another one's.
func (c *Compiler) others(source string, ref *run.Text) string {
	if c.in.State.Started.Snapshot.Compiler < 4 {
		return c.data(source, ref)
	}
	return c.block(source, ref, c.text(ref))
}

func (c *Compiler) say(m model.Message) { c.messages = append(c.messages, m) }

func (c *Compiler) text(ref *run.Text) string {
	if ref == nil {
		return ""
	}
	payload, present := c.in.Texts[ref.ID]
	if !present {
		return "[erased]"
	}
	return string(payload.Bytes)
}

// data wraps text that came from elsewhere. The mark of the block comes from
// the text's salted commitment, which whoever wrote the text cannot know.
func (c *Compiler) data(source string, ref *run.Text) string {
	return c.wrap(source, ref, c.text(ref))
}

func (c *Compiler) wrap(source string, ref *run.Text, body string) string {
	if ref.Marking.Integrity == policy.Trusted {
		return body
	}
	return c.block(source, ref, body)
}

func (c *Compiler) block(source string, ref *run.Text, body string) string {
	return model.Wrap(ref.Commitment[:16], source, ref.Marking.Labels.String(), ref.Marking.Integrity.String(), body)
}
