package tree_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/tree"
	"gantry.dev/graph/opaque"
)

// served answers for a run with a child, a grandchild and a sidecar.
func served(t *testing.T) *httptest.Server {
	id := func(run string) string { return opaque.ID("acme", opaque.Run, run) }
	below := map[string]string{
		id("root"): `{"node":{"kind":"SUB_AGENT","agent":"clerk","status":"WAITING","call":2,"carve":{"money":"1500000","tokens":"9"},"settled":null,"run":{"id":"` + id("child") + `"}}},` +
			`{"node":{"kind":"SIDECAR","purpose":"CHECK","agent":"watcher","status":"RUNNING","call":null,"carve":null,"settled":null,"run":{"id":"` + id("beside") + `"}}}`,
		id("child"): `{"node":{"kind":"SUB_AGENT","agent":"re\u001bader","status":"COMPLETED","call":1,"carve":{"money":"20","tokens":"9"},"settled":{"money":"15","tokens":"9"},"run":{"id":"` + id("grandchild") + `"}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Query     string
			Variables struct{ ID string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		answer := `"id":"` + asked.Variables.ID + `","agent":"desk","status":"WAITING","startedAt":"2026-03-01T09:00:00Z"`
		switch {
		case strings.Contains(asked.Query, "children("):
			answer = `"children":{"edges":[` + below[asked.Variables.ID] + `],"pageInfo":{"hasNextPage":false}}`
		case strings.Contains(asked.Query, "lineage{"):
			answer = `"lineage":[{"run":"` + id("top") + `","kind":"ROOT","agent":"house","agentRevision":"r1"},` +
				`{"run":"` + id("root") + `","kind":"SUB_AGENT","agent":"desk","agentRevision":"r2"}]`
		}
		_, _ = fmt.Fprintf(w, `{"data":{"run":{%s},"viewer":{"organisation":"acme"}}}`, answer)
	}))
	t.Cleanup(server.Close)
	return server
}

func run(t *testing.T, args ...string) string {
	t.Setenv("GANTRY_TOKEN", "t")
	var out bytes.Buffer
	command := tree.Command()
	command.SetOut(&out)
	command.SetArgs(append(args, "--url", served(t).URL))
	require.NoError(t, command.ExecuteContext(t.Context()))
	return out.String()
}

func TestTreeShowsWhatStandsAboveAndBelow(t *testing.T) {
	require.Equal(t, "run root: house → desk, WAITING\n"+
		"  run child: clerk, call 2, $1.500000 carved, WAITING\n"+
		"    run grandchild: re\\u{001B}ader, call 1, $0.000020 carved, $0.000015 spent, COMPLETED\n"+
		"  run beside: watcher, sidecar CHECK, on a budget of its own, RUNNING\n", run(t, opaque.ID("acme", opaque.Run, "root")))
	var got struct {
		Run, Agent string
		Lineage    []map[string]string
		Below      []struct {
			Run   string
			Below []struct{ Run string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, opaque.ID("acme", opaque.Run, "root"), "--json")), &got))
	require.Equal(t, "grandchild", got.Below[0].Below[0].Run)
	require.Equal(t, []map[string]string{
		{"run": "top", "kind": "ROOT", "agent": "house", "agentRevision": "r1"}, {"run": "root", "kind": "SUB_AGENT", "agent": "desk", "agentRevision": "r2"},
	}, got.Lineage)
}
