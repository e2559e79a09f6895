package prompt

import (
	"encoding/base64"
	"fmt"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/orchestrator/run"
)

// Showing is a message with the images and files that prompts show of a call,
// each without its bytes.
func Showing(brief run.Brief, call *run.Call) (message model.Message) {
	if !brief.Shows(call) {
		return message
	}
	for i, m := range call.Media {
		_, kind, _ := strings.Cut(m.MediaType, "/")
		message.Media = append(message.Media, model.Media{MediaType: m.MediaType, Name: fmt.Sprintf("c%d-%d.%s", call.CallProposed.Call, i+1, kind)})
	}
	return message
}

// media are the images and files of a call with their bytes, without those that
// were erased.
func (c *Compiler) media(call *run.Call, shown []model.Media) (media []model.Media) {
	for i, m := range shown {
		payload, present := c.in.Texts[call.Media[i].Text.ID]
		var err error
		if m.Bytes, err = base64.StdEncoding.DecodeString(string(payload.Bytes)); present && err == nil {
			media = append(media, m)
		}
	}
	return media
}

// unshown says of the images and files of a call which are left out, and which
// are gone.
func (c *Compiler) unshown(call *run.Call) (lines []string) {
	for _, m := range call.Media {
		_, present := c.in.Texts[m.Text.ID]
		switch {
		case !c.in.Brief.Shows(call):
			lines = append(lines, fmt.Sprintf("[left out to save room: %s, %d bytes; call the tool again to see it]", m.MediaType, m.Bytes))
		case !present:
			lines = append(lines, erased)
		}
	}
	return lines
}
