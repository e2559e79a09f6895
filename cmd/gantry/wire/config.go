// Package wire builds the platform from its configuration and closes it in
// reverse order. The commands and the end-to-end tests use it as it is.
package wire

import (
	"errors"
	"log/slog"
	"path/filepath"
)

// Config is everything that a process is told.
type Config struct {
	Folder   string            // where keys and, by default, the database live
	Database string            // "sqlite:PATH" or "postgres://…"; empty: a SQLite file in Folder
	Files    string            // root of the built-in file tools; empty: none
	Work     bool              // advance runs
	Dev      bool              // keys are made when absent
	Worker   string            // names this process in leases
	LeaseMs  int64             // 0: 15 s
	Secrets  map[string]string // credential references and their secrets
	Log      *slog.Logger
	Site     Site // of crash tests; nil otherwise
}

// withDefaults fills in what was not said.
func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = "sqlite:" + filepath.Join(c.Folder, "gantry.db")
	}
	if c.Worker == "" {
		c.Worker = "worker"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate joins everything that is wrong.
func (c Config) Validate() error {
	var faults []error
	if c.Folder == "" {
		faults = append(faults, errors.New("folder: say where keys and data live"))
	}
	if c.LeaseMs < 0 {
		faults = append(faults, errors.New("lease: must not be negative"))
	}
	return errors.Join(faults...)
}
