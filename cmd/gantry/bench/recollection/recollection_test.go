package recollection_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/bench/recollection"
)

// small is two short conversations with questions on them.
func small() fstest.MapFS {
	said := []string{
		"Mo: I sold the old sailing boat at last", "Ida: What did you get for it?", "Mo: Nine thousand, and a crate of pears",
		"Ida: The roof leaks again", "Mo: Call the thatcher from Ribe", "Ida: He wants to be paid in advance",
	}
	var turns, questions strings.Builder
	for conversation := 1; conversation <= 2; conversation++ {
		for i, text := range said {
			speaker, words, _ := strings.Cut(text, ": ")
			fmt.Fprintf(&turns, `{"conversation":%d,"id":"T%d","session":%d,"when":"4:0%d pm on %d May, 2031","speaker":%q,"text":%q,"image":null}`+"\n",
				conversation, i+1, 1+i/3, i, 1+i/3, speaker, words)
		}
		fmt.Fprintf(&questions, `{"conversation":%d,"question":"What was paid for the boat?","answer":"9000","category":1,"evidence":["T1","T3"]}`+"\n", conversation)
		fmt.Fprintf(&questions, `{"conversation":%d,"question":"Who repairs the roof?","answer":1,"category":2,"evidence":["T5","nowhere"]}`+"\n", conversation)
		fmt.Fprintf(&questions, `{"conversation":%d,"question":"What is it?","category":3,"evidence":["nowhere"]}`+"\n", conversation)
	}
	return fstest.MapFS{"turns.jsonl": {Data: []byte(turns.String())}, "questions.jsonl": {Data: []byte(questions.String())}}
}

func TestMeasure(t *testing.T) {
	folder := t.TempDir()
	report, err := recollection.Measure(t.Context(), recollection.Config{Conversations: small(), Folder: folder})
	require.NoError(t, err)
	require.Equal(t, []int{2, 12, 4}, []int{report.Conversations, report.Turns, report.Questions}, "without questions on nothing")
	memory, ranking, bm25 := report.Ways[0], report.Ways[1], report.Ways[2]
	require.Equal(t, []string{"memory", "ranking", "bm25"}, []string{memory.Name, ranking.Name, bm25.Name})
	require.Equal(t, ranking.Recall, memory.Recall, "the index loses nothing")
	require.Equal(t, ranking.Categories, memory.Categories)
	require.InDelta(t, 1, memory.At10, 1e-9, "six turns are all among the first ten")
	require.Equal(t, 2, memory.Categories[0].Questions)
	require.Positive(t, memory.Microseconds.Median)
	require.LessOrEqual(t, bm25.At5, 1.0)

	var table, object bytes.Buffer
	require.NoError(t, report.Table(&table))
	require.Contains(t, table.String(), "4 questions within 2 conversations of 12 turns")
	require.Contains(t, table.String(), "memory: the service, on SQLite")
	require.NoError(t, report.JSON(&object))
	var read recollection.Report
	require.NoError(t, json.Unmarshal(object.Bytes(), &read))
	require.Equal(t, *report, read)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMeasureSaysWhatIsWrongWithTheData(t *testing.T) {
	for name, change := range map[string]func(fstest.MapFS){
		"turns.jsonl: file does not exist":     func(m fstest.MapFS) { delete(m, "turns.jsonl") },
		"questions.jsonl: file does not exist": func(m fstest.MapFS) { delete(m, "questions.jsonl") },
		"turns.jsonl line 2":                   func(m fstest.MapFS) { m["turns.jsonl"].Data = []byte("\n{\n") },
		"does not say when":                    func(m fstest.MapFS) { m["turns.jsonl"].Data = []byte(`{"id":"T1","when":"yesterday"}`) },
		"no question has evidence":             func(m fstest.MapFS) { m["questions.jsonl"].Data = nil },
	} {
		data := small()
		change(data)
		_, err := recollection.Measure(t.Context(), recollection.Config{Conversations: data, Folder: t.TempDir()})
		require.ErrorContains(t, err, name)
	}
}
