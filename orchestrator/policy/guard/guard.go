//go:build !insecure_nopolicy

// Package guard says whether this build keeps to policy. There is one other
// build, which exists to show that the benchmark of obedient models sees what
// happens without policy; see docs/adr.
package guard

// Up is true: verdicts, labels and authority hold. It is a constant, so that
// nothing of the other build is in this one.
const Up = true
