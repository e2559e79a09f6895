package memorytest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
)

// Worlds in which little happens prove little: every deed is done, by low, by
// others in the open and unseen, and refused in the ways that low may meet.
func TestWorldsAreEventful(t *testing.T) {
	outcomes := map[string]int{}
	for seed := uint64(1); seed <= 300; seed++ {
		w := write(seed)
		for _, v := range w.variants() {
			p := &player{scene: &w.scene, ids: map[string]string{}}
			p.brain = NewBrain(Config{NowMs: func() int64 { return p.nowMs }, Rules: worldRules, Embedder: Letters{},
				NewID: func() string { p.made++; return idOf(p.step, p.made) }})
			for i := range v.steps {
				s := &v.steps[i]
				p.begin(s.name, s.atMs)
				if s.act == looks {
					continue
				}
				answer, err := p.do(t.Context(), s)
				outcomes[outcomeOf(s, answer, err)]++
			}
		}
	}
	for _, wanted := range []string{
		"remember by low: done", "remember by low: known", "remember by low: AUDIENCE", "remember by low: NOT_FOUND",
		"remember by others: done", "remember unseen: done",
		"supersede by low: done", "supersede by low: NOT_WHOLE", "supersede by low: NOT_ENTITLED", "supersede by others: done", "supersede unseen: done",
		"consolidate by low: done", "consolidate by low: EXPIRES", "consolidate by others: done", "consolidate unseen: done",
		"forget by low: done", "forget by low: NOT_WHOLE", "forget by others: done", "forget unseen: done",
		"promote by low: done", "promote by low: NOT_ENTITLED", "promote by others: done", "promote unseen: done",
		"declassify by others: done", "declassify unseen: done",
	} {
		require.GreaterOrEqual(t, outcomes[wanted], 10, "%s: %v", wanted, outcomes)
	}
}

func outcomeOf(s *step, answer any, err error) string {
	by := "by others"
	switch {
	case s.by == low:
		by = "by low"
	case s.hidden:
		by = "unseen"
	}
	done := "done"
	if refusal, refused := asRefusal(err); refused {
		done = refusal.Code
	} else if kept, keeps := answer.(memory.Remembered); keeps && kept.Known {
		done = "known"
	}
	return fmt.Sprintf("%s %s: %s", [...]string{"remember", "supersede", "consolidate", "forget", "promote", "declassify"}[s.act], by, done)
}
