// Command wordnet makes what memory knows of English words from the files of
// WordNet 3.0, as Debian's package wordnet-base has them:
//
//	go run ./memory/embed/wordnet -from DIR forms > memory/rank/irregular.txt
//	go run ./memory/embed/wordnet -from DIR table > memory/embed/words.bin
//
// The same files give the same bytes on the same kind of machine. The forms go
// first: the table is made of stems as package rank has them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"gantry.dev/memory/embed/table"
)

// size is that of the table.
type size struct{ words, dimensions int }

func main() {
	var of size
	from := flag.String("from", "/usr/share/wordnet", "folder with data.noun, noun.exc, cntlist.rev and the others")
	flag.IntVar(&of.words, "words", 30_000, "how many words the table has at most")
	flag.IntVar(&of.dimensions, "dimensions", 128, "how many dimensions it has")
	flag.Parse()
	if err := produce(os.DirFS(*from), flag.Arg(0), of, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(folder fs.FS, what string, of size, to io.Writer) error {
	var out []byte
	switch what {
	case "forms":
		bases, err := irregular(folder)
		if err != nil {
			return err
		}
		out = formLines(bases)
	case "table":
		made, err := tableOf(folder, of)
		if err != nil {
			return err
		}
		out = made.Encode()
	default:
		return errors.New("say what to make: forms or table")
	}
	_, err := to.Write(out)
	return err
}

// tableOf learns the table.
func tableOf(folder fs.FS, of size) (table.Table, error) {
	synsets, err := readSynsets(folder)
	if err != nil {
		return table.Table{}, err
	}
	tagged, err := readCounts(folder)
	if err != nil {
		return table.Table{}, err
	}
	v := newVocabulary(synsets, tagged, of.words)
	vectors := factor(ppmi(bags(synsets, v), len(v.stems)), of.dimensions)
	center(vectors)
	return pack(v, vectors), nil
}

// center takes from all vectors what they have in common, which tells none from
// another, after each was brought to length 1.
func center(vectors dense) {
	unit(vectors)
	mean := make([]float64, vectors.columns)
	for i := range vectors.rows {
		for c, x := range vectors.row(i) {
			mean[c] += x / float64(vectors.rows)
		}
	}
	for i := range vectors.rows {
		row := vectors.row(i)
		for c := range row {
			row[c] -= mean[c]
		}
	}
	unit(vectors)
}

func unit(vectors dense) {
	for i := range vectors.rows {
		row := vectors.row(i)
		length := math.Sqrt(dot(row, row))
		for c := range row {
			if length > 0 {
				row[c] /= length
			}
		}
	}
}

// usual is the share of all words that halves what a word says in a text, the
// constant of Arora, Liang and Ma's weights.
const usual = 1e-3

// pack rounds to bytes.
func pack(v vocabulary, vectors dense) table.Table {
	total := 0.0
	for _, count := range v.counts {
		total += count
	}
	t := table.Table{Dim: vectors.columns, Stems: v.stems}
	for i := range vectors.rows {
		t.Weights = append(t.Weights, uint8(math.Round(255*usual/(usual+v.counts[i]/total))))
		most := 0.0
		for _, x := range vectors.row(i) {
			most = max(most, math.Abs(x))
		}
		for _, x := range vectors.row(i) {
			if most == 0 {
				x, most = 0, 1
			}
			t.Vectors = append(t.Vectors, int8(math.Round(127*x/most)))
		}
	}
	return t
}
