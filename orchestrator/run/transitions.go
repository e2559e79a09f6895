package run

// Transition is one cell of the table of transitions.
type Transition struct {
	From Status // "" before the run exists
	Kind EventKind
	To   Status
}

func allowed(Status, EventKind, Status) bool { return true }
