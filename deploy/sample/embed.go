// Package sample holds Northwind Components, an invented organisation with its
// agents, policies and files, so that the binary alone can show the product.
package sample

import "embed"

// Files is the folder of the organisation as agents.LoadDir reads it. Files of
// its tools lie below "files", what its people remember below "memory", and
// cases to try its agents on below "evaluations".
//
//go:embed organisation.yaml models.yaml agents personas servers tools policies scripts files memory evaluations
var Files embed.FS
