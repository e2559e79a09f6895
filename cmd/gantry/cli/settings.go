package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/google/uuid"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gantry.dev/agents/credential"
	"gantry.dev/cmd/gantry/telemetry"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/orchestrator/policy"
)

// settings are what an operator tells a process: in a file, in the environment
// as GANTRY_NAME, or by a flag, the later before the earlier.
type settings struct {
	Folder   string            `koanf:"folder"`
	Database string            `koanf:"database"`
	Bus      string            `koanf:"bus"`
	Listen   string            `koanf:"listen"`
	Origins  []string          `koanf:"origins"`
	Public   string            `koanf:"public"`
	Issuers  []string          `koanf:"issuers"`
	Issuer   string            `koanf:"issuer"`
	Files    string            `koanf:"files"`
	Heads    string            `koanf:"heads"`
	Attest   time.Duration     `koanf:"attest"`
	Worker   string            `koanf:"worker"`
	Lease    time.Duration     `koanf:"lease"`
	Poll     time.Duration     `koanf:"poll"`
	Drain    time.Duration     `koanf:"drain"`
	Secrets  map[string]string `koanf:"secrets"`

	Credentials map[string]credential.Entry `koanf:"credentials"`

	Qdrant     string `koanf:"qdrant"`
	Embeddings string `koanf:"embeddings"`
	Embedder   string `koanf:"embedder"`
	Dimensions int    `koanf:"dimensions"`
	Embedded   string `koanf:"embedded"`

	Sweep time.Duration `koanf:"sweep"`

	Traces string `koanf:"traces"`
	Traced string `koanf:"traced"`
}

const (
	envPrefix    = "GANTRY_"
	secretPrefix = "SECRET_" // GANTRY_SECRET_LEDGER is the secret "ledger"
	configFlag   = "config"
)

// settingFlags declares the settings that a command takes as flags.
func settingFlags(command *cobra.Command, listen string) {
	flags := command.Flags()
	flags.String(configFlag, "", "YAML file with these settings, and the maps secrets and credentials")
	flags.String("folder", ".gantry", "where keys and, by default, the database live")
	flags.String("database", "", "sqlite:PATH or postgres://…; by default a SQLite file in the folder")
	flags.String("bus", "", "nats://… to tell other processes; by default inside this one")
	flags.String("listen", listen, "host:port of the GraphQL interface; empty for none")
	flags.StringSlice("origins", nil, "other origins whose pages may use the interface, for example https://app.example.org")
	flags.String("public", "", "address that clients of MCP and A2A know the server by, for example https://gantry.example.org; by default the one that they asked at")
	flags.StringSlice("issuers", nil, "addresses of authorization servers that clients of MCP are sent to for a token; by default none")
	flags.String("issuer", "gantry", "issuer of bearer tokens")
	flags.String("files", "", "root of the built-in file tools; by default there are none")
	flags.String("qdrant", "", "http(s)://host:6334 of the Qdrant server that has memory's index, its key the secret qdrant; by default the index is in the process")
	flags.String("embeddings", "", "base URL of OpenAI's embeddings protocol, its key the secret embeddings; by default only the vectors that come with the process")
	flags.String("embedder", "", "model of the embeddings, as their server names it")
	flags.String("embedded", "", "labels that texts may bear which are sent to the embeddings, joined by commas; by default only what has no label is sent")
	flags.String("traces", "", "base URL of an OTLP/HTTP collector that is told what runs did, for example http://127.0.0.1:4318; by default nothing is traced")
	flags.String("traced", "", "labels that texts may bear which stand in traces, joined by commas, or "+unlabelled+" for those without; by default no text does")
	flags.Duration("sweep", 5*time.Minute, "how often what memory has to erase or mend is looked for")
	flags.Int("dimensions", 0, "how many dimensions its vectors have; by default the server is asked at the start")
	flags.String(headsFlag, "", "folder of signed heads, better not where the database is; by default heads in the folder; "+noHeads+" signs none")
	flags.Duration("attest", time.Minute, "how often heads are signed")
	flags.String("worker", "", "names this process in leases; by default made up")
	flags.Duration("lease", 15*time.Second, "how long a run stays with a worker that is not heard of")
	flags.Duration("poll", time.Second, "how often to look when nobody tells")
	flags.Duration("drain", 10*time.Second, "how long open requests may take at the end")
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{settingMark: nil} })
}

// someSettingFlags declares the settings for a command that heeds a few of them.
// The others are taken, as a common script may give them, and not shown.
func someSettingFlags(command *cobra.Command, heeded ...string) {
	settingFlags(command, "")
	command.Flags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = f.Name != configFlag && !slices.Contains(heeded, f.Name)
	})
}

// The setting of the folder of signed heads, and what it is where there is none.
const (
	headsFlag = "heads"
	noHeads   = "none"
)

// settingMark tells the flags of settings from a command's own.
const settingMark = "gantry_setting"

func isSetting(f *pflag.Flag) bool {
	_, marked := f.Annotations[settingMark]
	return marked
}

// clientVariables are names in the environment that are no settings: those of
// the commands that ask a server.
var clientVariables = []string{"GANTRY_URL", "GANTRY_TOKEN", "GANTRY_HOME"}

// testPrefix begins the names by which tests are told of services.
const testPrefix = "GANTRY_TEST_"

// readSettings joins file, environment and flags. A setting that is not known
// is an error.
func readSettings(command *cobra.Command) (settings, error) {
	k := koanf.New(".")
	path, _ := command.Flags().GetString(configFlag)
	if path = cmp.Or(path, os.Getenv(envPrefix+strings.ToUpper(configFlag))); path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return settings{}, fmt.Errorf("config file: %w", err)
		}
	}
	var unknown []error
	environment := env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(name, value string) (string, any) {
		if slices.Contains(clientVariables, name) || strings.HasPrefix(name, testPrefix) {
			return "", nil
		}
		short := strings.TrimPrefix(name, envPrefix)
		if reference, secret := strings.CutPrefix(short, secretPrefix); secret {
			return "secrets." + strings.ToLower(reference), value
		}
		setting := strings.ToLower(short)
		if flag := command.Flags().Lookup(setting); flag == nil || !isSetting(flag) {
			unknown = append(unknown, fmt.Errorf("the environment variable %s is no setting; unset it, or see --help for those that there are", name))
			return "", nil
		}
		return setting, value
	}})
	flags := posflag.ProviderWithFlag(command.Flags(), ".", k, func(f *pflag.Flag) (string, any) {
		if !isSetting(f) {
			return "", nil // the command's own
		}
		return f.Name, posflag.FlagVal(command.Flags(), f)
	})
	if err := errors.Join(k.Load(environment, nil), errors.Join(unknown...), k.Load(flags, nil)); err != nil {
		return settings{}, err
	}
	k.Delete(configFlag)
	s, err := decodeSettings(k)
	if err != nil {
		return settings{}, fmt.Errorf("settings: %w", err)
	}
	if s.Worker == "" {
		s.Worker = uuid.NewString()
	}
	return s, nil
}

func decodeSettings(k *koanf.Koanf) (s settings, err error) {
	var read mapstructure.Metadata
	decoder := &mapstructure.DecoderConfig{Result: &s, Metadata: &read, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToSliceHookFunc(","))}
	if err := k.UnmarshalWithConf("", &s, koanf.UnmarshalConf{DecoderConfig: decoder}); err != nil {
		return s, errors.New(strings.ReplaceAll(err.Error(), "cli.settings.", "")) // people know no Go type
	}
	slices.Sort(read.Unused)
	for _, name := range read.Unused {
		err = errors.Join(err, fmt.Errorf("%q is not known; see --help for those that there are", name))
	}
	return s, err
}

// headsFolder is where signed heads are; empty for nowhere.
func (s settings) headsFolder() string {
	switch s.Heads {
	case "":
		return filepath.Join(s.Folder, headsFlag)
	case noHeads:
		return ""
	}
	return s.Heads
}

// config makes a process of the settings.
func (s settings) config(log *slog.Logger) wire.Config {
	return wire.Config{Heads: s.headsFolder(), Attest: s.Attest,
		Folder: s.Folder, Database: s.Database, Bus: s.Bus, Listen: s.Listen, Origins: s.Origins, Public: s.Public, Issuers: s.Issuers, Issuer: s.Issuer, Files: s.Files,
		Worker: s.Worker, Lease: s.Lease, Poll: s.Poll, Drain: s.Drain, Secrets: s.Secrets, Credentials: s.Credentials, Log: log, Memory: s.memory(log), Traces: s.traces()}
}

// The secrets of what memory works with.
const (
	qdrantSecret     = "qdrant"
	embeddingsSecret = "embeddings"
)

// memory is with what a process of the settings remembers.
func (s settings) memory(log *slog.Logger) wire.Memory {
	m := wire.Memory{Qdrant: qdrant.Config{URL: s.Qdrant, APIKey: qdrant.Key(s.Secrets[qdrantSecret]), Logger: log},
		Embeddings: embed.EndpointConfig{BaseURL: s.Embeddings, Model: s.Embedder, Dim: s.Dimensions}, Sweep: s.Sweep}
	m.Embeddings.Sent = []policy.Labels{labels(s.Embedded)}
	if key, given := s.Secrets[embeddingsSecret]; given {
		m.Embeddings.Key = func(context.Context) (string, error) { return key, nil }
	}
	return m
}

// unlabelled has texts without labels stand in traces, and no others.
const unlabelled = "unlabelled"

// traces is where and how runs are traced.
func (s settings) traces() telemetry.Config {
	return telemetry.Config{Collector: s.Traces, Content: s.Traced != "", Clearance: labels(strings.ReplaceAll(s.Traced, unlabelled, ""))}
}

// labels reads labels that are joined by commas.
func labels(joined string) (set policy.Labels) {
	for _, label := range strings.FieldsFunc(joined, func(r rune) bool { return r == ',' || r == ' ' }) {
		set = set.Join(policy.NewLabels(policy.Label(label)))
	}
	return set
}

// logTo writes what an operator should see, one JSON object on each line.
func logTo(command *cobra.Command) *slog.Logger {
	return slog.New(slog.NewJSONHandler(command.ErrOrStderr(), nil))
}
