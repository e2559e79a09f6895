package memorytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
)

// Design is a planted fault: a way to build a memory that tells readers of what
// they may not see. Check must find each of them.
type Design uint8

// The wrong designs.
const (
	GlobalStatistics Design = iota + 1 // words are as rare as in all that is remembered
	WholeEmbedding                     // vectors are made of all the text
	FilterAfterCut                     // the best are taken before those are dropped that the reader may not see
	LengthMark                         // a mark is as long as what it hides
	TotalBefore                        // a page tells how many items there are for everybody
	EtagOverHidden                     // an etag changes with what is hidden
	ErrorTells                         // hidden and absent are different errors
	KnownUnseen                        // what is the same as something unseen is known already
	RetiredUnseen                      // something unseen takes an item's place
	ReceiptOfAll                       // a receipt lists what its owner never saw
	CacheForAll                        // answers are kept by their question, whoever asked it
)

// Designs are all of them by name.
func Designs() map[string]Design {
	return map[string]Design{
		"statistics over all text":       GlobalStatistics,
		"embedding of all text":          WholeEmbedding,
		"filtering after the cut":        FilterAfterCut,
		"a mark with length":             LengthMark,
		"a total before filtering":       TotalBefore,
		"an etag over hidden edits":      EtagOverHidden,
		"an error that tells":            ErrorTells,
		"known to others":                KnownUnseen,
		"retired by something unseen":    RetiredUnseen,
		"a receipt of what was not seen": ReceiptOfAll,
		"a cache for all readers":        CacheForAll,
	}
}

// spoil makes the mistakes of a rendering that were planted.
func (b *Brain) spoil(rendering view.Rendering, item *view.Item, reader *view.Reader) view.Rendering {
	switch b.config.Wrong {
	case LengthMark:
		for _, segment := range item.Segments {
			if !segment.Labels.Within(reader.Clearance) {
				mark := strings.Repeat("█", len(segment.Text))
				rendering.Text = strings.Replace(rendering.Text, view.Redacted, mark, 1)
			}
		}
	case EtagOverHidden:
		all, err := json.Marshal(item)
		if err != nil {
			panic(err) // strings and numbers always have a form
		}
		sum := sha256.Sum256(append(all, rendering.Etag...))
		rendering.Etag = hex.EncodeToString(sum[:16])
	}
	return rendering
}

// cached returns the answer to a question that somebody asked at the same time,
// where that was planted, and otherwise asks.
func (b *Brain) cached(question memory.Question, nowMs int64, ask func() (memory.Recollection, error)) (memory.Recollection, error) {
	if b.config.Wrong != CacheForAll {
		return ask()
	}
	at := fmt.Sprint(nowMs, question)
	if answer, kept := b.cache[at]; kept {
		return answer, nil
	}
	answer, err := ask()
	b.cache[at] = answer
	return answer, err
}

// spoilCursor tells with a cursor what was planted.
func (b *Brain) spoilCursor(cursor string) string {
	if b.config.Wrong == TotalBefore {
		return fmt.Sprintf("%s of %d", cursor, len(b.items))
	}
	return cursor
}

func wholeText(item *view.Item) string {
	var text strings.Builder
	for _, segment := range item.Segments {
		text.WriteString(segment.Text)
	}
	return text.String()
}
