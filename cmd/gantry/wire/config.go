// Package wire builds the platform from its configuration and closes it in
// reverse order. The commands and the end-to-end tests use it as it is.
package wire

import (
	"database/sql/driver"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/credential"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/telemetry"
	"gantry.dev/orchestrator/schedule"
)

// Config is everything that a process is told.
type Config struct {
	Folder    string            // where keys and, by default, the database live
	Database  string            // "sqlite:PATH" or "postgres://…"; empty: a SQLite file in Folder
	Bus       string            // "nats://…"; empty: inside this process
	Namespace string            // of the bus, where installations share a broker; empty: "gantry"
	Listen    string            // "host:port" of the GraphQL interface; empty: none
	Origins   []string          // other origins whose pages may use the interface
	Public    string            // address that clients of other protocols know it by; empty: the one that they asked at
	Issuers   []string          // addresses of authorization servers that clients are sent to for a token
	Issuer    string            // of bearer tokens; empty: "gantry"
	Memory    Memory            // what it remembers with
	Files     string            // root of the built-in file tools; empty: none
	Heads     string            // folder of signed heads, better not where the database is; empty: none are signed
	Attest    time.Duration     // how often heads are signed; 0: 1 min
	Work      bool              // advance runs
	Dev       bool              // keys are made when absent, everybody may read the schema
	Worker    string            // names this process in leases; unique among processes
	Lease     time.Duration     // 0: 15 s
	Poll      time.Duration     // how often to look when nobody tells; 0: 1 s
	Notices   time.Duration     // how often to look for whom to tell that something waits; 0: 10 s
	Drain     time.Duration     // how long open requests, and then effects in flight, may take at the end; 0: 10 s
	Traces    telemetry.Config  // where what runs did is told as traces; without a collector nowhere
	Secrets   map[string]string // secrets by credential reference, for any audience
	// Credentials say where other secrets come from, and who may see them.
	Credentials map[string]credential.Entry
	Vaults      map[string]credential.Source // more places that secrets come from, by scheme
	Log         *slog.Logger
	Runs        int // runs advanced side by side; 0: 64
	// Egress says what tools may reach; nil: what their organisation says.
	Egress func(agents.Organisation) (*tool.Egress, error)
	// Provider opens the models that are not built in; nil: OpenAI's protocol.
	Provider func(agents.Model) (model.Provider, error)

	// Of crash tests; nil otherwise.
	Site    Site
	Between func(driver.Connector) driver.Connector // stands between the journal and its driver
}

// withDefaults fills in what was not said.
func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = "sqlite:" + filepath.Join(c.Folder, "gantry.db")
	}
	if c.Egress == nil {
		c.Egress = egressOf
	}
	if c.Issuer == "" {
		c.Issuer = "gantry"
	}
	if c.Worker == "" {
		c.Worker = "worker"
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.Notices == 0 {
		c.Notices = 10 * time.Second
	}
	if c.Attest == 0 {
		c.Attest = time.Minute
	}
	if c.Drain == 0 {
		c.Drain = 10 * time.Second
	}
	if c.Memory.Sweep == 0 {
		c.Memory.Sweep = 5 * time.Minute
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
	if !strings.HasPrefix(c.Database, "sqlite:") && !strings.HasPrefix(c.Database, "postgres://") && !strings.HasPrefix(c.Database, "postgresql://") {
		faults = append(faults, errors.New("database: must begin with sqlite: or postgres://")) // it may hold a password: it is not repeated
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			faults = append(faults, errors.New("listen: must be host:port"))
		}
	}
	if c.Issuer == schedule.Issuer {
		faults = append(faults, errors.New("issuer: this name is that of schedules"))
	}
	if c.Lease < 0 || c.Poll < 0 || c.Drain < 0 || c.Attest < 0 || c.Notices < 0 || c.Memory.Sweep < 0 {
		faults = append(faults, errors.New("lease, poll, drain, attest, notices, sweep: must not be negative"))
	}
	if c.Traces.Collector != "" {
		faults = append(faults, c.Traces.Validate())
	}
	if c.Memory.Qdrant.URL != "" {
		faults = append(faults, c.Memory.Qdrant.Validate())
	}
	if c.Memory.Embeddings.BaseURL != "" {
		faults = append(faults, c.Memory.Embeddings.Validate())
	} else if c.Memory.Embeddings.Model != "" || c.Memory.Embeddings.Dim != 0 {
		faults = append(faults, errors.New("embedder, dimensions: say with embeddings where it is"))
	}
	return errors.Join(faults...)
}
