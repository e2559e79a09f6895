package showcase

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/deploy/sample"
)

// authors are who remembers the documents of a folder of the sample.
var authors = map[string]string{"hr": "ruth.abelson", "finance": "tomas.rehak", "sales": "liam.byrne"}

// forgotten is the subject of the fact that is forgotten in the end.
const forgotten = "accounts team, raise 2027"

// remember has the sample's people remember documents and facts, each under
// their own name. It returns the fact that is forgotten in the end.
func (s *show) remember(ctx context.Context) (fact client.MemoryItem, err error) {
	documents := 0
	err = fs.WalkDir(sample.Files, "memory", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(at) != ".md" {
			return err
		}
		content, err := fs.ReadFile(sample.Files, at)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(at, "memory/")
		folder, _, _ := strings.Cut(name, "/")
		_, err = s.people[authors[folder]].RememberDocument(ctx, client.Document{Name: name, Content: content, Draft: client.MemoryDraft{Integrity: "TRUSTED"}})
		documents++
		return err
	})
	if err != nil {
		return fact, err
	}
	facts, err := sample.Files.Open("memory/facts.jsonl")
	if err != nil {
		return fact, err
	}
	defer func() { _ = facts.Close() }() // only read
	lines, told := bufio.NewScanner(facts), 0
	for lines.Scan() {
		item, err := s.rememberFact(ctx, lines.Bytes())
		if err != nil {
			return fact, err
		}
		told++
		if item.Subject == forgotten {
			fact = item
		}
	}
	if err := lines.Err(); err != nil {
		return fact, err
	}
	return fact, s.Say("%d documents and %d facts are remembered, each by whoever wrote it", documents, told)
}

// said is one line of the sample's facts.
type said struct {
	By    string `json:"by"`
	Marks []struct {
		Quote  string   `json:"quote"`
		Labels []string `json:"labels"`
	} `json:"marks"`
	client.MemoryDraft
}

func (s *show) rememberFact(ctx context.Context, line []byte) (client.MemoryItem, error) {
	var fact said
	if err := json.Unmarshal(line, &fact); err != nil {
		return client.MemoryItem{}, fmt.Errorf("facts of the sample: %w", err)
	}
	fact.Integrity = "TRUSTED"
	for _, m := range fact.Marks {
		mark, err := client.MarkOf(fact.Text, m.Quote, m.Labels)
		if err != nil {
			return client.MemoryItem{}, err
		}
		fact.MemoryDraft.Marks = append(fact.MemoryDraft.Marks, mark)
	}
	done, err := s.people[fact.By].Remember(ctx, fact.MemoryDraft)
	return done.Item, err
}
