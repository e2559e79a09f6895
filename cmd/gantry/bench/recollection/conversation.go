// Package recollection measures how much of what answers a question memory
// finds again, on long conversations that whoever measures brings along.
package recollection

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// turn is one line of turns.jsonl.
type turn struct {
	Conversation int    `json:"conversation"`
	ID           string `json:"id"`
	Session      int    `json:"session"`
	When         string `json:"when"` // of the session, for example "1:56 pm on 8 May, 2023"
	Speaker      string `json:"speaker"`
	Text         string `json:"text"`
	Image        string `json:"image"` // what is on a picture that came with it
}

// question is one line of questions.jsonl.
type question struct {
	Conversation int      `json:"conversation"`
	Question     string   `json:"question"`
	Category     int      `json:"category"`
	Evidence     []string `json:"evidence"` // ids of the turns that answer it
}

// item is a turn as memory gets it.
type item struct {
	ID         string
	Text       string
	Ref        string // the session
	Position   int    // in the session, from 1
	RecordedMs int64
}

// conversation is what is remembered together, with the questions on it.
type conversation struct {
	Number    int
	Items     []item
	Questions []question
}

// lastMs is when the conversation ended: the questions are asked then.
func (c conversation) lastMs() (last int64) {
	for _, i := range c.Items {
		last = max(last, i.RecordedMs)
	}
	return last
}

// whenForm is how a session says when it was.
const whenForm = "3:04 pm on 2 January, 2006"

// read reads both files of a folder. Questions without evidence among the turns
// are left out: there is nothing to find.
func read(folder fs.FS) ([]conversation, error) {
	turns, err := lines[turn](folder, "turns.jsonl")
	if err != nil {
		return nil, err
	}
	questions, err := lines[question](folder, "questions.jsonl")
	if err != nil {
		return nil, err
	}
	byNumber := map[int]*conversation{}
	known := map[int]map[string]bool{}
	places := map[string]int{}
	for _, t := range turns {
		made, err := itemOf(t)
		if err != nil {
			return nil, err
		}
		place := strconv.Itoa(t.Conversation) + "/" + made.Ref
		places[place]++
		made.Position = places[place]
		if byNumber[t.Conversation] == nil {
			byNumber[t.Conversation], known[t.Conversation] = &conversation{Number: t.Conversation}, map[string]bool{}
		}
		c := byNumber[t.Conversation]
		c.Items = append(c.Items, made)
		known[t.Conversation][t.ID] = true
	}
	for _, q := range questions {
		q.Evidence = slices.DeleteFunc(q.Evidence, func(id string) bool { return !known[q.Conversation][id] })
		if c := byNumber[q.Conversation]; c != nil && len(q.Evidence) > 0 {
			c.Questions = append(c.Questions, q)
		}
	}
	return inOrder(byNumber)
}

func inOrder(byNumber map[int]*conversation) ([]conversation, error) {
	var all []conversation
	asked := 0
	for _, c := range byNumber {
		all = append(all, *c)
		asked += len(c.Questions)
	}
	if asked == 0 {
		return nil, errors.New("no question has evidence among the turns")
	}
	slices.SortFunc(all, func(a, b conversation) int { return a.Number - b.Number })
	return all, nil
}

func itemOf(t turn) (item, error) {
	at, err := time.Parse(whenForm, t.When)
	if err != nil {
		return item{}, fmt.Errorf("turn %s of conversation %d does not say when, as in %q", t.ID, t.Conversation, whenForm)
	}
	text := t.Speaker + ": " + t.Text
	if t.Image != "" {
		text += " " + t.Image
	}
	return item{ID: t.ID, Text: text, Ref: "session " + strconv.Itoa(t.Session), RecordedMs: at.UnixMilli()}, nil
}

// lines decodes a file with one JSON value on each line.
func lines[T any](folder fs.FS, name string) (all []T, err error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for n := 1; scanner.Scan(); n++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		var one T
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", filepath.Base(name), n, err)
		}
		all = append(all, one)
	}
	return all, scanner.Err()
}
