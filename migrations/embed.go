// Package migrations holds the database schema, one numbered series of files
// for each dialect.
package migrations

import "embed"

// Files has the folders "sqlite" and "postgres".
//
//go:embed sqlite/*.sql postgres/*.sql
var Files embed.FS
