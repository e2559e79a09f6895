package run

import "slices"

// Media is an image or a file that a tool gave beside the words of its result.
type Media struct {
	Text      Text   `json:"text"`      // its bytes in base64, so that it is a text like any other
	MediaType string `json:"mediaType"` // one of MediaTypes
	Bytes     int    `json:"bytes"`     // before base64
}

// MediaTypes are the kinds of media that are kept.
func MediaTypes() []string {
	return []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
}

// unfit says why media cannot be kept, nil if they can. Their type stands in the
// open, so that it is never a word of somebody else.
func unfit(media []Media) *Refusal {
	if slices.ContainsFunc(media, func(m Media) bool { return !slices.Contains(MediaTypes(), m.MediaType) || m.Bytes < 1 }) {
		return refuse("INVALID_MEDIA", "Images and files of a result are PNG, JPEG, GIF, WebP or PDF, and not empty.")
	}
	return nil
}

func textsOf(media []Media) (texts []Text) {
	for _, m := range media {
		texts = append(texts, m.Text)
	}
	return texts
}

// MediaOf lists the media that an event bears.
func MediaOf(event Event) []Media {
	if ended, is := event.(CallEnded); is {
		return ended.Media
	}
	return nil
}

// Words are the texts of an event that are words, and no media.
func Words(event Event) []Text {
	media := MediaOf(event)
	return slices.DeleteFunc(event.Texts(), func(text Text) bool {
		return slices.ContainsFunc(media, func(m Media) bool { return m.Text.ID == text.ID })
	})
}

// Words are the run's texts that are words, and no media.
func (s *State) Words() []Text {
	media := map[string]bool{}
	for i := range s.Calls {
		for _, m := range s.Calls[i].Media {
			media[m.Text.ID] = true
		}
	}
	return slices.DeleteFunc(s.Texts(), func(text Text) bool { return media[text.ID] })
}

// mediaBefore reports whether the run had media when a turn was taken.
func (s *State) mediaBefore(turn int) bool { return s.firstMedia != 0 && s.firstMedia < turn }

// Shows reports whether the media of a call are shown as they are: not where its
// turn stands in brief, nor where they were left out for room.
func (b Brief) Shows(c *Call) bool {
	return c.Turn > b.Through && c.CallProposed.Call > b.Unshown
}
