package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// synset is a meaning with the words for it.
type synset struct {
	key        string   // part of speech and offset: its name in the files
	lemmas     []string // with spaces
	related    []string // keys
	definition string
	examples   string
}

// files are the parts of speech, by the letter that stands for them.
var files = [...]struct{ letter, name string }{{"n", "noun"}, {"v", "verb"}, {"a", "adj"}, {"r", "adv"}}

// readSynsets reads the data files in their order.
func readSynsets(folder fs.FS) ([]synset, error) {
	var all []synset
	for _, part := range files {
		err := eachLine(folder, "data."+part.name, func(line string) error {
			if strings.HasPrefix(line, " ") {
				return nil // the licence
			}
			made, err := parseSynset(part.letter, line)
			all = append(all, made)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseSynset reads one line of a data file, as wndb(5WN) has it.
func parseSynset(letter, line string) (synset, error) {
	fields, gloss, ok := strings.Cut(line, " | ")
	parts := strings.Fields(fields)
	if !ok || len(parts) < 6 {
		return synset{}, fmt.Errorf("no synset: %.40q", line)
	}
	made := synset{key: letter + parts[0]}
	words, err := strconv.ParseInt(parts[3], 16, 32)
	if err != nil || len(parts) < 5+2*int(words) {
		return synset{}, fmt.Errorf("no count of words: %.40q", line)
	}
	for i := range int(words) {
		lemma, _, _ := strings.Cut(parts[4+2*i], "(") // syntactic markers of adjectives
		made.lemmas = append(made.lemmas, strings.ReplaceAll(lemma, "_", " "))
	}
	parts = parts[4+2*int(words):]
	pointers, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 1+4*pointers {
		return synset{}, fmt.Errorf("no count of relations: %.40q", line)
	}
	for i := range pointers {
		made.related = append(made.related, strings.Replace(parts[3+4*i], "s", "a", 1)+parts[2+4*i])
	}
	made.definition, made.examples, _ = strings.Cut(strings.TrimSpace(gloss), `; "`)
	return made, nil
}

// readCounts returns how often each lemma was met in texts that were tagged by
// hand, by part of speech and lemma.
func readCounts(folder fs.FS) (map[string]int, error) {
	counts := map[string]int{}
	err := eachLine(folder, "cntlist.rev", func(line string) error {
		parts := strings.Fields(line)
		if len(parts) != 3 {
			return nil
		}
		lemma, rest, _ := strings.Cut(parts[0], "%")
		count, err := strconv.Atoi(parts[2])
		if err != nil || rest == "" {
			return fmt.Errorf("no count: %.40q", line)
		}
		counts[posOf(rest[0])+strings.ReplaceAll(lemma, "_", " ")] += count
		return nil
	})
	return counts, err
}

// posOf is the letter of a part of speech in a sense key.
func posOf(digit byte) string {
	switch digit {
	case '1':
		return "n"
	case '2':
		return "v"
	case '4':
		return "r"
	}
	return "a"
}

// readExceptions returns the irregular forms of a part of speech, in the
// order of the file.
func readExceptions(folder fs.FS, name string) (pairs [][2]string, err error) {
	err = eachLine(folder, name+".exc", func(line string) error {
		if parts := strings.Fields(line); len(parts) >= 2 {
			pairs = append(pairs, [2]string{parts[0], parts[1]})
		}
		return nil
	})
	return pairs, err
}

func eachLine(folder fs.FS, name string, take func(string) error) error {
	file, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if err := take(scanner.Text()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return scanner.Err()
}
