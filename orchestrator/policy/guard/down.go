//go:build insecure_nopolicy

// Package guard says whether this build keeps to policy. This one does not: it
// is for the benchmark of obedient models alone, and serves nobody.
package guard

// Up is false: everything is permitted, and everybody reads everything.
const Up = false
