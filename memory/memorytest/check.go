package memorytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"gantry.dev/memory"
)

// Check plays worlds through a memory until it has played so many. They come
// in families that agree on everything that one reader sees and differ in what
// is hidden from it: other secrets in the same places, hidden items that are
// not there, more of them, hidden edits, hidden successors. Everything that the
// reader can fetch must be the same bytes in all of a family.
func Check(t *testing.T, open Open, worlds int) {
	t.Helper()
	played, differences := 0, 0
	for seed := uint64(1); played < worlds && !t.Failed(); seed++ {
		family, difference, err := Compare(t.Context(), open, seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		played += family
		if difference != "" {
			differences++
			t.Errorf("seed %d: %s", seed, difference)
		}
	}
	fmt.Printf("level: L7 worlds %d, differences %d\n", played, differences)
}

// Compare plays the family of worlds of one seed. It returns how many these
// are, and the first difference between what the reader gets in them, "" for
// none. The error is one of the memory that is no refusal.
func Compare(ctx context.Context, open Open, seed uint64) (worlds int, difference string, err error) {
	w := write(seed)
	var first []byte
	for i, v := range w.variants() {
		got, err := play(ctx, open, &w.scene, v.steps)
		if err != nil {
			return worlds, "", fmt.Errorf("world %q: %w", v.name, err)
		}
		worlds++
		if i == 0 {
			first = got
		} else if !bytes.Equal(first, got) && difference == "" {
			difference = fmt.Sprintf("the world with %s:\n%s", v.name, firstDifference(first, got))
		}
	}
	return worlds, difference, nil
}

// firstDifference returns the first lines that differ.
func firstDifference(a, b []byte) string {
	left, right := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(left), len(right)) {
		if !bytes.Equal(left[i], right[i]) {
			return fmt.Sprintf("line %d as written %s\nand there %s", i+1, left[i], right[i])
		}
	}
	return fmt.Sprintf("%d answers as written, %d there", len(left), len(right))
}

func asRefusal(err error) (*memory.Refusal, bool) {
	var refusal *memory.Refusal
	refused := errors.As(err, &refusal)
	return refusal, refused
}
