package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// distant are indexes that give nothing back of what they hold.
type distant struct{ index.Indexes }

func (d distant) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	opened, err := d.Indexes.Open(ctx, space)
	return struct{ index.Index }{opened}, err
}

// What is ranked out of an index in the process is what the store has: same
// answers, same scores.
func TestRecallOutOfTheIndexIsRecallOutOfTheStore(t *testing.T) {
	h := build(t, sqlite)
	h.index = func() index.Indexes { return distant{flat.New()} }
	other, _ := h.process(t, h.files)
	ann, bob := person("ann", "hr"), person("bob")
	random := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields("boat roof pear garden train letter winter doctor piano river market cousin ticket lamp bread storm")
	say := func(n int) string {
		said := make([]string, n)
		for i := range said {
			said[i] = words[random.IntN(len(words))]
		}
		return strings.Join(said, " ")
	}
	var kept []view.Rendering
	for n := range 260 {
		draft := fact(fmt.Sprintf("%s. %s %d", say(3), say(5), n))
		draft.Source = view.Source{Kind: view.FromElsewhere, Ref: fmt.Sprint("talk ", n/40), Position: 1 + n%40}
		draft.Subject = "talk"
		if n%5 == 0 {
			draft.Marks = []memory.Mark{{Start: 0, End: 8, Labels: policy.NewLabels("hr")}}
		}
		h.clock.Add(60_000)
		kept = append(kept, h.remember(t, ann, draft))
	}
	for _, n := range []int{12, 77, 141} {
		next := fact(say(6))
		next.Subject = "talk"
		_, err := h.Supersede(t.Context(), ann, kept[n].ID, next)
		require.NoError(t, err)
	}
	_, err := h.Declassify(t.Context(), person("olga", "hr"), kept[20].ID, policy.NewLabels("hr"), "it is known")
	require.NoError(t, err)
	for range 12 {
		question := memory.Question{Text: "What of " + say(3) + "?", Limit: 1 + random.IntN(40)}
		for _, reader := range []view.Reader{ann, bob} {
			near, err := h.Recall(t.Context(), reader, question)
			require.NoError(t, err)
			far, err := other.Recall(t.Context(), reader, question)
			require.NoError(t, err)
			require.NotEmpty(t, near.Hits)
			require.Equal(t, far, near)
		}
	}
}
