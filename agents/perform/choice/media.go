package choice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/model"
	"gantry.dev/agents/route"
)

// sees is how many tokens an image or a file counts at most for a model, and
// whether it reads it at all.
func sees(m catalogue.Model, media model.Media) (tokens int64, reads bool) {
	if strings.HasPrefix(media.MediaType, "image/") {
		return m.ImageTokens, m.Images
	}
	return m.FileTokens, m.Files
}

// MediaTokens is how many tokens the images and files of messages count at most
// for a model: those that it reads.
func MediaTokens(m catalogue.Model, messages ...model.Message) (sum int64) {
	for _, message := range messages {
		for _, media := range message.Media {
			if tokens, reads := sees(m, media); reads {
				sum += tokens
			}
		}
	}
	return sum
}

// Shown are the messages as a model gets them: in the place of an image or a
// file that it does not read stands that there is one.
func Shown(m catalogue.Model, messages []model.Message) []model.Message {
	unread := func(media model.Media) bool { _, reads := sees(m, media); return !reads }
	if !slices.ContainsFunc(messages, func(message model.Message) bool { return slices.ContainsFunc(message.Media, unread) }) {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		message := &messages[i]
		var shown []model.Media
		for _, media := range message.Media {
			if unread(media) {
				message.Text += fmt.Sprintf("\n[not shown: %s, %d bytes; you cannot read such a file]", media.MediaType, len(media.Bytes))
			} else {
				shown = append(shown, media)
			}
		}
		message.Media = shown
	}
	return messages
}

// needMedia asks for a model that reads what the prompt shows, where one that is
// right for the turn does: else whoever takes it gets the words alone.
func (c *Choosing) needMedia(messages []model.Message) {
	var images, files bool
	for _, message := range messages {
		for _, media := range message.Media {
			image := strings.HasPrefix(media.MediaType, "image/")
			images, files = images || image, files || !image
		}
	}
	for _, wanted := range [][2]bool{{images, files}, {images, false}, {false, files}} {
		need := c.need
		need.Images, need.Files = wanted[0], wanted[1]
		if (need.Images || need.Files) && slices.ContainsFunc(c.candidates, func(candidate route.Candidate) bool { return ever(need, candidate) }) {
			c.need.Images, c.need.Files = wanted[0], wanted[1]
			return
		}
	}
}

// ever reports whether a candidate is right for the turn but for what time,
// money or a shorter prompt mends.
func ever(need route.Need, candidate route.Candidate) bool {
	switch need.Refuses(candidate, math.MaxInt64) {
	case "", route.Budget, route.Context:
		return true
	}
	return false
}
