package recollection

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"gantry.dev/memory/embed"
)

// Config says what is measured.
type Config struct {
	Conversations fs.FS  // with turns.jsonl and questions.jsonl
	Folder        string // where the memory's temporary folder is made; empty: the system's
}

// Report is what was found again, by each way of looking.
type Report struct {
	Conversations int   `json:"conversations"`
	Turns         int   `json:"turns"`
	Questions     int   `json:"questions"`
	Ways          []Way `json:"ways"`
}

// Way is one way of looking with its figures.
type Way struct {
	Name string `json:"name"` // "memory", "ranking" or "bm25"
	Is   string `json:"is"`   // in words
	Recall
	Microseconds Microseconds `json:"microsecondsPerQuestion"`
	Categories   []Category   `json:"categories"`
}

// Recall is the mean share of the turns that answer a question among the first
// 5, 10 and 25 that were found.
type Recall struct {
	At5  float64 `json:"recallAt5"`
	At10 float64 `json:"recallAt10"`
	At25 float64 `json:"recallAt25"`
}

// Category is the recall of the questions of one category, as the data name it.
type Category struct {
	Category  int `json:"category"`
	Questions int `json:"questions"`
	Recall
}

// Microseconds is what a question took, with everything.
type Microseconds struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

const most = 25

// looker finds the turns that answer a question, the best first.
type looker interface {
	recall(ctx context.Context, text string, limit int) ([]string, error)
}

// Measure remembers each conversation apart, asks every question within its
// own, and looks where the turns are that answer it; the same questions in each
// way.
func Measure(ctx context.Context, config Config) (report *Report, err error) {
	conversations, err := read(config.Conversations)
	if err != nil {
		return nil, err
	}
	embedder := embed.NewStatic()
	house, err := build(ctx, config.Folder, embedder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if razed := house.raze(); err == nil {
			err = razed
		}
	}()
	ways := []struct {
		way  Way
		open func(conversation) (looker, error)
	}{
		{Way{Name: "memory", Is: "the service, on SQLite with the index in the process"}, func(c conversation) (looker, error) { return house.remember(ctx, c) }},
		{Way{Name: "ranking", Is: "its ranking over every turn, without a store"}, func(c conversation) (looker, error) { return newRanking(ctx, embedder, c) }},
		{Way{Name: "bm25", Is: "BM25 on stems, to compare with"}, func(c conversation) (looker, error) { return newBM25(c.Items), nil }},
	}
	report = &Report{Conversations: len(conversations)}
	for _, c := range conversations {
		report.Turns += len(c.Items)
		report.Questions += len(c.Questions)
	}
	for _, w := range ways {
		var answers tally
		for _, c := range conversations {
			looks, err := w.open(c)
			if err != nil {
				return nil, err
			}
			if err := answers.ask(ctx, looks, c.Questions); err != nil {
				return nil, err
			}
		}
		report.Ways = append(report.Ways, answers.way(w.way))
	}
	return report, nil
}

// tally collects answers.
type tally struct {
	recalls map[int][]Recall // by category
	took    []time.Duration
}

func (t *tally) ask(ctx context.Context, looks looker, questions []question) error {
	if t.recalls == nil {
		t.recalls = map[int][]Recall{}
	}
	for _, q := range questions {
		began := time.Now()
		found, err := looks.recall(ctx, q.Question, most)
		if err != nil {
			return err
		}
		t.took = append(t.took, time.Since(began))
		t.recalls[q.Category] = append(t.recalls[q.Category], Recall{share(found, q.Evidence, 5), share(found, q.Evidence, 10), share(found, q.Evidence, most)})
	}
	return nil
}

// share is how much of the evidence is among the first.
func share(found, evidence []string, first int) float64 {
	count := 0
	for _, id := range evidence {
		if slices.Contains(found[:min(first, len(found))], id) {
			count++
		}
	}
	return float64(count) / float64(len(evidence))
}

func (t *tally) way(w Way) Way {
	var all []Recall
	for _, category := range slices.Sorted(maps.Keys(t.recalls)) {
		of := t.recalls[category]
		all = append(all, of...)
		w.Categories = append(w.Categories, Category{Category: category, Questions: len(of), Recall: mean(of)})
	}
	w.Recall = mean(all)
	slices.Sort(t.took)
	at := func(share float64) float64 {
		return float64(t.took[int(share*float64(len(t.took)-1))]) / float64(time.Microsecond)
	}
	w.Microseconds = Microseconds{Median: at(0.5), P95: at(0.95)}
	return w
}

func mean(of []Recall) (sum Recall) {
	for _, r := range of {
		sum.At5, sum.At10, sum.At25 = sum.At5+r.At5, sum.At10+r.At10, sum.At25+r.At25
	}
	n := float64(cmp.Or(len(of), 1))
	return Recall{sum.At5 / n, sum.At10 / n, sum.At25 / n}
}

// JSON prints one object.
func (r *Report) JSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Table prints a line for each way and category.
func (r *Report) Table(to io.Writer) error {
	fmt.Fprintf(to, "%d questions within %d conversations of %d turns\n\n", r.Questions, r.Conversations, r.Turns)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	rows := io.Writer(table)
	fmt.Fprintln(rows, "way\tcategory\tquestions\trecall@5\t@10\t@25\tµs median\tp95")
	for _, w := range r.Ways {
		fmt.Fprintf(rows, "%s\tall\t%d\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\n", w.Name, r.Questions, w.At5, w.At10, w.At25, w.Microseconds.Median, w.Microseconds.P95)
		for _, c := range w.Categories {
			fmt.Fprintf(rows, "\t%d\t%d\t%.3f\t%.3f\t%.3f\t\t\n", c.Category, c.Questions, c.At5, c.At10, c.At25)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	for _, w := range r.Ways {
		fmt.Fprintf(to, "%s: %s\n", w.Name, w.Is)
	}
	return nil
}
