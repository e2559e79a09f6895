package run

func allowed(from Status, kind EventKind, to Status) bool { return true }
