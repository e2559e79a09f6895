package recollection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"gantry.dev/cmd/gantry/bench/machine"
)

// SpeedConfig says how fast what is measured.
type SpeedConfig struct {
	Items     []int  // how many there are, each measured apart
	Questions int    // of each reader
	Writes    int    // that are remembered one by one, when everything is there
	Database  string // as machine.Open takes it; empty: SQLite in the folder
	Qdrant    string // URL; empty: the index of this process
	Folder    string // where the temporary folder is made: the disk that is measured; empty: the system's
	Progress  io.Writer
}

// SpeedReport is what was measured.
type SpeedReport struct {
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Database string `json:"database"`
	Index    string `json:"index"`
	Sizes    []Size `json:"sizes"`
}

// Size is what was measured with so many items.
type Size struct {
	Items   int       `json:"items"`
	Views   int       `json:"views"`
	Fill    Fill      `json:"fill"`
	Start   Start     `json:"start"`
	Write   Writes    `json:"write"`
	Readers []Reading `json:"readers"`
	Bare    Bare      `json:"bare"`
}

// Fill is what it took to put the items in, many in a transaction.
type Fill struct {
	Seconds        float64 `json:"seconds"` // with views, words and vectors
	StoreSeconds   float64 `json:"storeSeconds"`
	ItemsPerSecond float64 `json:"itemsPerSecond"`
	BytesOnDisk    int64   `json:"bytesOnDisk"` // of SQLite's files; 0 on PostgreSQL
}

// Start is what a new process has to do before it can answer.
type Start struct {
	Seconds       float64 `json:"seconds"`
	ResidentBytes int64   `json:"residentBytes"` // more than before, after a collection
}

// Writes are items that were remembered one by one.
type Writes struct {
	Ms        machine.Quantiles `json:"ms"`
	PerSecond float64           `json:"perSecond"`
}

// Reading is what the questions of one reader took, in milliseconds.
type Reading struct {
	Reader  string            `json:"reader"`
	Visible float64           `json:"visible"` // share of the views
	Recall  machine.Quantiles `json:"recallMs"`
	// RecallCPU is what one question cost this process; the clock has steps of 10 ms
	// for all of them together.
	RecallCPU float64           `json:"recallCPUMs"`
	Index     machine.Quantiles `json:"indexMs"` // the ten best by vector, of the index alone
	Asked     machine.Quantiles `json:"askedMs"` // the index as memory asks it: by vector and by words, a hundred of each
	Scan      machine.Quantiles `json:"scanMs"`  // all vectors read from a table and compared
	Goals     []Goal            `json:"goals,omitempty"`
}

// Goal is a figure to reach, in milliseconds.
type Goal struct {
	Name   string  `json:"name"`
	AtMost float64 `json:"atMost"`
	Is     float64 `json:"is"`
	Held   bool    `json:"held"`
}

// Bare is what the machine does without memory.
type Bare struct {
	DotsPerSecond   float64           `json:"dotsPerSecond"`        // of 384 dimensions, out of memory, by one core
	CopiedPerSecond float64           `json:"copiedBytesPerSecond"` // from memory to memory
	FsyncsPerSecond float64           `json:"fsyncsPerSecond"`
	CommitMs        machine.Quantiles `json:"commitMs"` // of one row
}

// Time measures how fast memory is. Nothing is left behind.
func Time(ctx context.Context, config SpeedConfig) (*SpeedReport, error) {
	report := &SpeedReport{Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Database: "SQLite", Index: "in the process"}
	if config.Qdrant != "" {
		report.Index = "Qdrant"
	}
	for _, items := range config.Items {
		if items < 1 {
			return nil, errors.New("items: at least one")
		}
		size, err := config.size(ctx, items, report)
		if err != nil {
			return report, fmt.Errorf("%d items: %w", items, err)
		}
		report.Sizes = append(report.Sizes, size)
	}
	return report, nil
}

func (c SpeedConfig) size(ctx context.Context, items int, report *SpeedReport) (size Size, err error) {
	folder, err := os.MkdirTemp(c.Folder, "gantry-memory-")
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	database, err := machine.Open(ctx, c.Database, folder)
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	report.Database = database.Name()
	m := &measuring{config: c, folder: folder, database: database, size: Size{Items: items}}
	defer func() { err = errors.Join(err, m.close()) }()
	for _, step := range []struct {
		says string
		does func(context.Context) error
	}{
		{"putting them in", m.fill},
		{"starting", m.start},
		{"asking", m.ask},
		{"remembering", m.write},
		{"the machine alone", m.bare},
	} {
		if c.Progress != nil {
			_, _ = fmt.Fprintf(c.Progress, "%d items: %s\n", items, step.says)
		}
		if err := step.does(ctx); err != nil {
			return m.size, err
		}
	}
	return m.size, nil
}
