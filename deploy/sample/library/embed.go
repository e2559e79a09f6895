// Package library holds real documents under free terms, for research to be
// shown on. README.md says where each comes from.
package library

import "embed"

// Files are the documents, by folder and name.
//
//go:embed licences modules packages
var Files embed.FS
