package invariant

import (
	"fmt"
	"reflect"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// CheckText holds a text that is there against the reference to it.
func CheckText(id string, want run.Text, opened journal.Opened) []Violation {
	switch {
	case opened.Fault != "":
		return []Violation{{Code: TextUnreadable, Run: id, Text: fmt.Sprintf("Text %s: %s", want.ID, opened.Fault)}}
	case run.Commit(opened.Salt, opened.Bytes) != want.Commitment || len(opened.Bytes) != want.Size:
		return []Violation{{Code: TextChanged, Run: id, Text: fmt.Sprintf("Text %s is not the one whose commitment was recorded.", want.ID)}}
	case !reflect.DeepEqual(opened.Text, want):
		return []Violation{{Code: TextChanged, Run: id, Text: fmt.Sprintf("Text %s is stored under another reference or marking than was recorded.", want.ID)}}
	}
	return nil
}
