package document

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gantry.dev/memory/detect"
)

// How long passages are, in bytes of the normal form.
const (
	enough = 800  // what goes on may as well begin the next one
	most   = 1200 // none has more, but what must not be cut; see keepWhole
)

const (
	joint       = " › " // between headings
	pathMost    = 960   // bytes of all of them; the outermost are left out
	headingMost = 200   // bytes of one heading in a path; longer ones are cut
	levelMost   = 16    // headings of one path
	passageMost = 200_000
)

// assembler writes the normal form, block by block, and cuts it into passages:
// at the borders of blocks where it can, then at those of sentences, of words,
// and last of runes. A passage lies under one path of headings.
type assembler struct {
	title    string
	normal   strings.Builder
	passages []Passage
	path     []heading
	base     int // headings of the path that belong to the files around this one
	unused   unusedHeading
	begin    int // where the passage that is being gathered begins; -1: none is
	end      int // where its last block ended
	started  bool
}

type heading struct {
	level int
	text  string
}

var errTooMuch = &Unreadable{Code: CodeTooLarge, Detail: "It holds more than 32 MiB of text; split it."}

var errTooMany = &Unreadable{Code: CodeTooLarge, Detail: "It falls into more than 200,000 passages; split it."}

// write adds a block to the normal form and returns where it begins.
func (a *assembler) write(block string) (int, error) {
	if a.normal.Len()+len(block)+2 > MaxNormal {
		return 0, errTooMuch
	}
	if len(a.passages) >= passageMost {
		return 0, errTooMany
	}
	if a.normal.Len() > 0 {
		a.normal.WriteString("\n\n")
	}
	at := a.normal.Len()
	a.normal.WriteString(block)
	return at, nil
}

// heading says that what follows stands under a heading of a level, from 1.
func (a *assembler) heading(level int, text string) error {
	if text = oneLine(clean(text)); text == "" {
		return nil
	}
	if level <= a.unused.level {
		a.alone()
	}
	a.flush()
	if a.title == "" && a.base == 0 {
		a.title = text
	}
	for len(a.path) > a.base && a.path[len(a.path)-1].level >= level {
		a.path = a.path[:len(a.path)-1]
	}
	a.unused = unusedHeading{under: len(a.path)}
	if len(a.path) < levelMost {
		a.path = append(a.path, heading{level: level, text: shorten(text)})
	}
	if len(text) > headingMost {
		return a.block(text)
	}
	at, err := a.write(text)
	a.unused = unusedHeading{level: level, at: at, size: len(text), under: a.unused.under}
	return err
}

// unusedHeading is the last heading, while nothing stands under it.
type unusedHeading struct {
	level    int // 0: there is none
	at, size int // bytes of the normal form
	under    int // how many headings are above it
}

// alone makes a passage of a heading that nothing stands under, so that its
// words are found too.
func (a *assembler) alone() {
	if a.unused.level == 0 {
		return
	}
	path := a.path
	a.path, a.begin, a.end, a.started = path[:a.unused.under], a.unused.at, a.unused.at+a.unused.size, true
	a.flush()
	a.path, a.unused = path, unusedHeading{}
}

// at says where in the file what follows stands, in words that are no part of
// its text.
func (a *assembler) at(place string) {
	a.alone()
	a.flush()
	a.path = append(a.path[:a.base:a.base], heading{level: 1, text: shorten(oneLine(clean(place)))})
}

// inside puts what a file holds that lies in this one under its name.
func (a *assembler) inside(name string, read func() error) error {
	a.alone()
	a.flush()
	path, base := a.path, a.base
	a.path = append(append([]heading{}, path...), heading{level: 0, text: shorten(oneLine(clean(name)))})
	a.base = len(a.path)
	err := read()
	a.alone()
	a.flush()
	a.path, a.base = path, base
	return err
}

// paragraph adds a block of text under the headings in force.
func (a *assembler) paragraph(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	a.unused = unusedHeading{}
	at, err := a.write(text)
	if err != nil {
		return err
	}
	if a.started && at+len(text)-a.begin > most {
		a.flush()
	}
	if !a.started {
		a.begin, a.started = at, true
	}
	a.end = at + len(text)
	for a.end-a.begin > most {
		rest := text[a.begin-at:]
		size := cut(rest)
		end := a.end
		a.end = a.begin + len(strings.TrimSpace(rest[:size]))
		a.flush()
		next := strings.TrimLeftFunc(rest[size:], unicode.IsSpace)
		a.begin, a.end, a.started = end-len(next), end, true
	}
	return nil
}

// block adds a paragraph that shares no passage with others.
func (a *assembler) block(text string) error {
	a.flush()
	err := a.paragraph(text)
	a.flush()
	return err
}

// flush ends the passage that is being gathered.
func (a *assembler) flush() {
	if !a.started {
		return
	}
	a.started = false
	var parts []string
	size := 0
	for _, h := range slices.Backward(a.path) {
		if size += len(h.text) + len(joint); size > pathMost {
			break
		}
		parts = append(parts, h.text)
	}
	slices.Reverse(parts)
	a.passages = append(a.passages, Passage{
		Heading: strings.Join(parts, joint), Offset: a.begin, Length: a.end - a.begin, Position: len(a.passages) + 1,
	})
}

func (a *assembler) document() Document {
	a.alone()
	a.flush()
	doc := Document{Title: a.title, Normal: a.normal.String()}
	doc.Passages = keepWhole(doc.Normal, a.passages)
	for i, p := range doc.Passages {
		doc.Passages[i].Text = doc.Normal[p.Offset : p.Offset+p.Length]
	}
	return doc
}

// keepWhole makes one of the passages that a secret or a number of a person lies
// across, however long that is: in a part of it nobody would know it again.
func keepWhole(normal string, passages []Passage) []Passage {
	spans := detect.Unite(detect.Find(normal))
	kept := passages[:0]
	for _, p := range passages {
		for len(spans) > 0 && spans[0].End <= p.Offset {
			spans = spans[1:]
		}
		if last := len(kept) - 1; last >= 0 && len(spans) > 0 && spans[0].Start < kept[last].Offset+kept[last].Length {
			kept[last].Length = p.Offset + p.Length - kept[last].Offset
			continue
		}
		p.Position = len(kept) + 1
		kept = append(kept, p)
	}
	return kept
}

// cut returns where a text that is too long for one passage ends best: behind a
// sentence or line, else a word, else a rune, within what a passage may have.
func cut(text string) int {
	limit := most
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	sentence, word := 0, 0
	var before rune
	for i, r := range text[:limit] {
		if unicode.IsSpace(r) {
			word = i
			if r == '\n' || strings.ContainsRune(`.!?…"')]`, before) {
				sentence = i
			}
		}
		if strings.ContainsRune("。！？", r) {
			sentence = i + utf8.RuneLen(r)
		}
		before = r
	}
	switch {
	case sentence >= enough/2:
		return sentence
	case word > 0:
		return word
	}
	return limit
}

func shorten(text string) string {
	if len(text) <= headingMost {
		return text
	}
	at := headingMost
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + "…"
}
