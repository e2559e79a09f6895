package gantry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "gantry.dev/"

// layers says who may import whom inside the module: a package may import only
// what stands in its row. A row that names a package that does not exist fails.
var layers = map[string][]string{
	"orchestrator/canon":               {"orchestrator/canon/memo"},
	"orchestrator/canon/memo":          {},
	"orchestrator/policy":              {"orchestrator/canon", "orchestrator/policy/guard"},
	"orchestrator/policy/guard":        {},
	"orchestrator/policy/cases":        {"orchestrator/policy"},
	"orchestrator/policy/policytest":   {"orchestrator/policy"},
	"orchestrator/run":                 {"orchestrator/canon", "orchestrator/policy"},
	"orchestrator/run/account":         {"orchestrator/policy", "orchestrator/run", "orchestrator/schedule"},
	"orchestrator/run/promise":         {"orchestrator/policy", "orchestrator/run"},
	"orchestrator/run/explore":         {"orchestrator/policy", "orchestrator/run", "orchestrator/run/promise"},
	"orchestrator/engine":              {"orchestrator/policy", "orchestrator/run"},
	"orchestrator/group":               {},
	"orchestrator/invariant":           {"orchestrator/engine", "orchestrator/journal", "orchestrator/policy", "orchestrator/run", "orchestrator/run/promise"},
	"orchestrator/journal":             {"migrations", "orchestrator/engine", "orchestrator/journal/frame", "orchestrator/journal/upgrade", "orchestrator/policy", "orchestrator/run"},
	"orchestrator/journal/frame":       {"orchestrator/run"},
	"orchestrator/journal/upgrade":     {"orchestrator/journal/frame", "orchestrator/run"},
	"orchestrator/journal/journaltest": {"orchestrator/engine", "orchestrator/journal/frame", "orchestrator/journal/upgrade", "orchestrator/policy", "orchestrator/run"},
	"orchestrator/notary":              {"orchestrator/canon", "orchestrator/journal", "orchestrator/run"},
	"orchestrator/notice":              {"orchestrator/engine", "orchestrator/journal"},
	"orchestrator/notice/send":         {"orchestrator/notice"},
	"orchestrator/schedule":            {"orchestrator/run"},
	"cmd/gantry/service/scheduling":    {"agents", "cmd/gantry/service", "graph", "orchestrator/engine", "orchestrator/policy", "orchestrator/run", "orchestrator/schedule", "orchestrator/schedule/calendar"},
	"orchestrator/schedule/calendar":   {"orchestrator/engine", "orchestrator/journal", "orchestrator/run", "orchestrator/schedule"},
	"orchestrator/simulate":            {"orchestrator/engine", "orchestrator/journal/journaltest", "orchestrator/policy", "orchestrator/run", "orchestrator/run/promise"},
	"orchestrator/bus":                 {"orchestrator/canon", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"orchestrator/bus/bustest":         {"orchestrator/bus", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"agents":                           {"agents/bounded", "agents/catalogue", "agents/expression", "agents/manifest", "agents/route", "agents/server", "agents/tool", "agents/tool/findings", "agents/tool/watch", "memory/view", "orchestrator/canon", "orchestrator/policy", "orchestrator/run", "agents/tool/results", "agents/evaluate"},
	"agents/artifact":                  {"agents", "agents/expression", "agents/manifest", "agents/tool", "memory/document", "orchestrator/canon"},
	"agents/bounded":                   {"orchestrator/canon"},
	"agents/credential":                {},
	"agents/evaluate":                  {"agents/expression", "agents/manifest", "orchestrator/canon", "orchestrator/policy"},
	"agents/evaluate/kept":             {"agents/evaluate", "orchestrator/canon", "orchestrator/engine", "orchestrator/journal"},
	"agents/expression":                {"orchestrator/canon"},
	"agents/catalogue":                 {"orchestrator/policy"},
	"agents/route":                     {"agents/catalogue", "orchestrator/policy"},
	"agents/model/health":              {"agents/catalogue", "agents/model"},
	"agents/perform/choice":            {"agents", "agents/catalogue", "agents/model", "agents/model/health", "agents/route", "orchestrator/policy", "orchestrator/run"},
	"agents/perform/hedge":             {"agents/model"},
	"graph/evaluated":                  {"agents/evaluate", "graph/edge", "graph/generated"},
	"cmd/gantry/service/evaluation":    {"agents/evaluate", "agents/evaluate/kept", "agents/perform", "agents/route", "cmd/gantry/service", "graph", "graph/evaluated", "orchestrator/engine"},
	"agents/manifest":                  {},
	"agents/model":                     {"orchestrator/canon", "orchestrator/policy"},
	"agents/model/fanout":              {"agents/model", "agents/research"},
	"agents/model/anthropic":           {"agents/model", "agents/model/exchange"},
	"agents/model/exchange":            {"agents/model"},
	"agents/model/gemini":              {"agents/model", "agents/model/exchange"},
	"agents/model/modeltest":           {"agents/model", "agents/model/exchange"},
	"agents/model/openai":              {"agents/model", "agents/model/exchange"},
	"agents/model/recording":           {},
	"agents/model/script":              {"agents/model"},
	"agents/model/offline":             {"agents/model", "agents/research"},
	"agents/research":                  {},
	"agents/tool/findings":             {"agents/research", "agents/tool", "memory", "memory/view", "orchestrator/policy"},
	"agents/server":                    {"orchestrator/canon"},
	"agents/tool/elicit":               {"agents/tool", "orchestrator/canon"},
	"agents/tool/sandbox":              {},
	"agents/tool/mcp":                  {"agents/credential", "agents/server", "agents/tool", "agents/tool/sandbox", "orchestrator/canon", "orchestrator/policy"},
	"cmd/gantry/cli/tools":             {"agents", "agents/credential", "agents/server", "agents/tool", "agents/tool/mcp", "cmd/gantry/cli/ask", "cmd/gantry/client"},
	"agents/tool/watch":                {"agents/tool", "orchestrator/policy", "orchestrator/run", "orchestrator/run/account"},
	"agents/perform":                   {"agents", "agents/artifact", "agents/model", "agents/model/fanout", "agents/model/health", "agents/model/offline", "agents/model/script", "agents/perform/bounds", "agents/perform/choice", "agents/perform/hedge", "agents/prompt", "agents/route", "agents/server", "agents/tool", "agents/tool/a2a", "agents/tool/elicit", "agents/tool/findings", "agents/tool/results", "agents/tool/watch", "memory", "memory/view", "orchestrator/canon", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"agents/prompt":                    {"agents", "agents/model", "agents/tool", "agents/tool/results", "memory/view", "orchestrator/canon", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"agents/tool/a2a":                  {"agents/credential", "agents/tool", "orchestrator/canon", "orchestrator/policy"},
	"agents/tool/results":              {"agents/tool", "agents/tool/watch", "orchestrator/policy", "orchestrator/run"},
	"agents/tool":                      {"agents/credential", "memory", "memory/view", "orchestrator/canon", "orchestrator/policy", "agents/server"},
	"agents/perform/bounds":            {"agents", "orchestrator/policy", "orchestrator/run"},
	"memory":                           {"memory/embed", "memory/index", "memory/rank", "memory/store", "memory/view", "orchestrator/canon", "orchestrator/policy"},
	"memory/detect":                    {},
	"memory/document":                  {"memory/detect", "memory/view", "orchestrator/policy"},
	"memory/embed":                     {"memory/embed/table", "memory/rank", "orchestrator/policy"},
	"memory/embed/table":               {},
	"memory/embed/wordnet":             {"memory/embed/table", "memory/rank"},
	"memory/index":                     {"memory/rank", "memory/view", "orchestrator/policy"},
	"memory/index/flat":                {"memory/index", "memory/rank", "memory/view"},
	"memory/index/indextest":           {"memory/index", "memory/rank", "memory/view"},
	"memory/index/qdrant":              {"memory/index", "memory/rank", "memory/view"},
	"memory/index/wire":                {},
	"memory/memorytest":                {"memory", "memory/embed", "memory/rank", "memory/view", "orchestrator/canon", "orchestrator/policy"},
	"memory/rank":                      {"memory/view", "orchestrator/policy"},
	"memory/store":                     {"memory/index", "memory/rank", "memory/view", "orchestrator/policy"},
	"memory/view":                      {"orchestrator/canon", "orchestrator/policy"},
	"graph":                            {"agents", "agents/catalogue", "agents/model/health", "agents/research", "agents/server", "graph/edge", "graph/evaluated", "graph/generated", "graph/graphiql", "graph/legible", "graph/opaque", "graph/remembered", "graph/scalar", "memory", "memory/embed", "memory/index", "memory/store", "memory/view", "orchestrator/canon", "orchestrator/engine", "orchestrator/group", "orchestrator/notice", "orchestrator/policy", "orchestrator/run", "orchestrator/run/account", "orchestrator/schedule"},
	"graph/edge":                       {"orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"graph/generated":                  {"graph/scalar"},
	"graph/graphiql":                   {},
	"graph/a2a":                        {"graph/edge", "graph/operation"},
	"graph/mcp":                        {"graph/edge", "graph/operation"},
	"graph/mcp/conform":                {"graph/edge", "graph/mcp"},
	"graph/legible":                    {},
	"graph/opaque":                     {"graph/edge", "orchestrator/engine"},
	"graph/operation":                  {"graph/edge"},
	"graph/remembered":                 {"graph/generated", "memory", "memory/view", "orchestrator/policy"},
	"graph/scalar":                     {},
	"migrations":                       {},
	"deploy/sample":                    {},
	"deploy/sample/library":            {},
	"cmd/gantry":                       anything,
	"cmd/gantry/bench":                 {"agents", "agents/model", "agents/perform", "cmd/gantry/bench/machine", "cmd/gantry/wire", "orchestrator/bus", "orchestrator/engine", "orchestrator/invariant", "orchestrator/journal", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/bench/machine":         {},
	"cmd/gantry/bench/obedient":        {"agents", "agents/model", "cmd/gantry/bench/obedient/canary", "cmd/gantry/bench/obedient/world", "cmd/gantry/client", "cmd/gantry/wire", "orchestrator/policy", "orchestrator/policy/guard", "orchestrator/run"},
	"cmd/gantry/bench/obedient/canary": {},
	"cmd/gantry/bench/obedient/world":  {},
	"cmd/gantry/bench/recollection":    {"cmd/gantry/bench/machine", "memory", "memory/embed", "memory/index", "memory/index/flat", "memory/index/qdrant", "memory/rank", "memory/store", "memory/view", "orchestrator/journal", "orchestrator/policy"},
	"cmd/gantry/cli":                   anything,
	"cmd/gantry/cli/ask":               {"cmd/gantry/client"},
	"cmd/gantry/cli/brain":             {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/outreach":          {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/evaluation":        {"agents", "agents/evaluate", "agents/model", "agents/tool", "cmd/gantry/cli/ask", "cmd/gantry/client", "cmd/gantry/ledger", "cmd/gantry/wire", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/cli/lending":           {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/record":            {"agents/catalogue", "agents/model", "agents/model/exchange", "agents/model/recording"},
	"cmd/gantry/cli/measure":           {"cmd/gantry/bench", "cmd/gantry/bench/obedient", "cmd/gantry/bench/recollection", "cmd/gantry/cli/ask"},
	"cmd/gantry/cli/policies":          {"agents", "cmd/gantry/cli/ask", "orchestrator/policy", "orchestrator/policy/cases"},
	"cmd/gantry/cli/people":            {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/schedule":          {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/access":            {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/sidecar":           {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/research":          {"cmd/gantry/cli/ask", "cmd/gantry/cli/brain", "cmd/gantry/client"},
	"cmd/gantry/cli/fanout":            {"cmd/gantry/cli/ask", "cmd/gantry/cli/research", "cmd/gantry/client", "deploy/sample/library"},
	"cmd/gantry/service/research":      {"agents", "agents/perform", "agents/research", "agents/tool", "cmd/gantry/service", "graph", "graph/generated", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/cli/roundtable":        {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/protocols":         {"agents/tool/a2a", "cmd/gantry/cli/ask", "cmd/gantry/client", "graph/edge", "graph/mcp"},
	"cmd/gantry/cli/tree":              {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/cli/showcase":          {"cmd/gantry/cli/ask", "cmd/gantry/client", "deploy/sample", "orchestrator/run"},
	"cmd/gantry/client":                {},
	"cmd/gantry/wire":                  anything,
	"cmd/gantry/service":               {"agents", "agents/evaluate", "agents/perform", "agents/tool/elicit", "agents/server", "agents/tool", "graph", "graph/opaque", "memory", "orchestrator/bus", "orchestrator/canon", "orchestrator/engine", "orchestrator/group", "orchestrator/journal", "orchestrator/notice", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/service/models":        {"agents", "agents/model", "agents/model/health", "cmd/gantry/service", "graph", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/cli/models":            {"cmd/gantry/cli/ask", "cmd/gantry/client"},
	"cmd/gantry/service/lending":       {"agents", "cmd/gantry/service", "graph", "orchestrator/canon", "orchestrator/engine", "orchestrator/journal", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/service/beside":        {"agents/perform", "agents/tool/watch", "cmd/gantry/service", "graph", "orchestrator/run"},
	"cmd/gantry/service/brain":         {"cmd/gantry/service", "graph", "graph/remembered", "memory", "memory/document", "memory/store", "memory/view", "orchestrator/policy"},
	"cmd/gantry/service/groups":        {"agents", "agents/perform", "cmd/gantry/service", "graph", "orchestrator/engine", "orchestrator/group", "orchestrator/journal", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/ledger":                {"cmd/gantry/listen"},
	"cmd/gantry/listen":                {},
	"cmd/gantry/telemetry":             {"memory/detect", "orchestrator/engine", "orchestrator/policy", "orchestrator/run"},
	"cmd/gantry/office":                {"cmd/gantry/listen"},
}

var anything = []string{"*"}

// homes says which packages may import an outside library, by prefix.
var homes = map[string][]string{
	"github.com/uptrace/bun":                {"orchestrator/journal"},
	"github.com/ThreeDotsLabs/watermill":    {"orchestrator/bus"},
	"github.com/99designs/gqlgen":           {"graph", "graph/edge", "graph/generated", "graph/scalar"},
	"cel.dev/cel-go":                        {"agents/expression"},
	"github.com/cedar-policy/cedar-go":      {"orchestrator/policy"},
	"github.com/netresearch/go-cron":        {"orchestrator/schedule"},
	"github.com/openai/openai-go":           {"agents/model/openai", "memory/embed"},
	"github.com/anthropics":                 {"agents/model/anthropic"},
	"google.golang.org/genai":               {"agents/model/gemini"},
	"go.starlark.net":                       {"agents/model/script"},
	"github.com/kljensen/snowball":          {"memory/embed/wordnet", "memory/rank"},
	"github.com/santhosh-tekuri/jsonschema": {"agents/tool"},
	"github.com/go-json-experiment/json":    {"orchestrator/canon"},
	"github.com/golang-jwt/jwt":             {"agents/credential", "graph/edge"},
	"github.com/zalando/go-keyring":         {"agents/credential"},
	"golang.org/x/oauth2":                   {"agents/credential", "agents/tool/mcp"},
	"github.com/coder/websocket":            {"cmd/gantry/bench", "graph/edge"},
	"github.com/pressly/goose":              {"orchestrator/journal"},
	"github.com/klauspost/compress":         {"orchestrator/journal/frame"},
	"github.com/klippa-app/go-pdfium":       {"memory/document"},
	"github.com/wneessen/go-mail":           {"orchestrator/notice/send"},
	"github.com/knadh/koanf":                {"cmd/gantry/cli"},
	"github.com/tetratelabs/wazero":         {"memory/document"},
	"github.com/qdrant/go-client":           {"memory/index/qdrant", "memory/index/wire"},
	"github.com/failsafe-go/failsafe-go":    {"memory/index/qdrant"},
	"google.golang.org/grpc":                {"memory/index/qdrant", "memory/index/wire"},

	"go.opentelemetry.io/otel": {"cmd/gantry/telemetry"},

	// The protocols between agents.
	"github.com/modelcontextprotocol/go-sdk": {"agents/tool/mcp", "cmd/gantry/bench/obedient/world", "cmd/gantry/office", "graph/mcp", "graph/mcp/conform"},
	"github.com/a2aproject/a2a-go":           {"agents/tool/a2a", "graph/a2a"},
}

// pure packages use nothing that a second call could answer differently.
var pure = []string{"agents/bounded", "agents/catalogue", "agents/evaluate", "agents/expression", "agents/prompt", "agents/route", "agents/server", "graph/legible", "memory/detect", "memory/rank", "memory/view", "orchestrator/canon", "orchestrator/group", "orchestrator/journal/frame", "orchestrator/policy", "orchestrator/run", "orchestrator/run/account", "orchestrator/run/promise", "orchestrator/schedule"}

var impure = []string{"context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "os", "net", "net/http", "sync", "sync/atomic", "database/sql", "io/fs"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestArchitecture(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	out, err := command.Output()
	require.NoError(t, err)
	packages, err := decodePackages(string(out))
	require.NoError(t, err)
	require.Empty(t, violations(packages, true))
}

// Five planted violations, each of which the rules must see.
func TestArchitectureSeesSeededViolations(t *testing.T) {
	for name, planted := range map[string]pkg{
		"upward arrow":          {module + "orchestrator/run", []string{module + "orchestrator/engine"}},
		"chance in the core":    {module + "orchestrator/policy", []string{"math/rand/v2"}},
		"library out of home":   {module + "orchestrator/engine", []string{"github.com/uptrace/bun"}},
		"package without a row": {module + "orchestrator/helper", nil},
		"binary imported":       {module + "graph", []string{module + "cmd/gantry/wire"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, violations([]pkg{planted}, false), 1)
		})
	}
	require.NotEmpty(t, violations(nil, true), "rows for packages that do not exist")
}

func decodePackages(out string) ([]pkg, error) {
	var packages []pkg
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

func violations(packages []pkg, complete bool) []string {
	var found []string
	seen := map[string]bool{}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		seen[name] = true
		if p.ImportPath == strings.TrimSuffix(module, "/") {
			continue
		}
		row, known := layers[name]
		if !known {
			found = append(found, name+" has no row in the table")
			continue
		}
		for _, imported := range p.Imports {
			if why := refusal(name, row, imported); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", name, imported, why))
			}
		}
	}
	for row := range layers {
		if complete && !seen[row] {
			found = append(found, "the table names "+row+", which does not exist")
		}
	}
	return found
}

func refusal(name string, row []string, imported string) string {
	if inside, ok := strings.CutPrefix(imported, module); ok {
		if !slices.Contains(row, inside) && !slices.Contains(row, "*") {
			return "not in its row"
		}
		return ""
	}
	if slices.Contains(pure, name) && slices.Contains(impure, imported) {
		return "a pure package may not"
	}
	for library, allowed := range homes {
		if strings.HasPrefix(imported, library) && !slices.Contains(allowed, name) {
			return "the library's home is " + strings.Join(allowed, ", ")
		}
	}
	return ""
}

// A pure package may measure a duration, but not ask what time it is.
func TestPurePackagesReadNoClock(t *testing.T) {
	asks := regexp.MustCompile(`\btime\.(Now|Since|Until|After|AfterFunc|Tick|NewTimer|NewTicker|Sleep)\b|\bgo func\b|\bselect \{`)
	require.True(t, asks.MatchString("x := time.Now()"))
	for _, dir := range pure {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				require.False(t, asks.Match(text), file)
			}
		}
	}
}

// Files and packages stay small enough to be read at one sitting.
func TestSizes(t *testing.T) {
	const mostLines, mostFiles = 400, 15
	files := map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || entry.Name() == "generated" || entry.Name() == "tmp") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[filepath.Dir(path)]++
		if lines := codeLines(string(text)); lines > mostLines {
			t.Errorf("%s has %d lines of code, at most %d", path, lines, mostLines)
		}
		return nil
	})
	require.NoError(t, err)
	for dir, count := range files {
		if count > mostFiles && dir != "orchestrator/run" {
			t.Errorf("%s has %d files, at most %d", dir, count, mostFiles)
		}
	}
}

func codeLines(text string) int {
	lines := 0
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "//") {
			lines++
		}
	}
	return lines
}
