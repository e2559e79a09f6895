package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/memory/index/qdrant"
	double "gantry.dev/memory/index/wire"
)

// What is planted in memory, one in each place that takes text. The words are such
// that no detector takes them for anything.
const (
	textCanary      = "lapwing of the north quarry"
	replacedCanary  = "lapwing of the south quarry"
	subjectCanary   = "lapwing, quarry subject"
	privateCanary   = "lapwing of a private quarry"
	questionCanary  = "lapwing asked about a quarry"
	promotionCanary = "lapwing quarry promotion"
	documentCanary  = "lapwing passage of a quarry"
	headingCanary   = "Lapwing Heading Of Quarries"
	nameCanary      = "lapwing-quarry-name.md"
)

// echoing is a model's server that says in its failure all that it was asked.
func echoing(t *testing.T) (url string, asked func() []byte) {
	var heard written
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = heard.Write(body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": string(body), "code": string(body), "type": "echo"}})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", heard.bytes
}

// everything of memory that can be asked for without an id, and with one.
const everything = `query($query:String!,$id:ID!,$ids:[ID!]!,$receipt:ID!){recall(query:$query,first:100,archived:true){hits{score citation item{...M}} labels integrity degraded}
 memoryItems(filter:{archived:true},first:100){edges{cursor node{...M}} pageInfo{endCursor}} memorySpaces{name} memoryItem(id:$id){...M} node(id:$id){...M} nodes(ids:$ids){...M}
 forgetReceipt(id:$receipt){id by{name} items stores{name count} digest}}
 fragment M on MemoryItem{id etag space kind subject heading text display labels integrity source{kind ref by{name} model} supersedes derivedFrom}`

// Secrets are remembered in every place that takes text, replaced, recalled by a
// question and by a run, promoted and forgotten. None of them stands in a log, in
// the database or another file, in what goes to an index's server, in an export or
// in an answer to somebody whom it is not for; when it is forgotten, in nobody's.
func TestFault_K16_NoSecretOfMemoryLiesWhereItCouldBeRead(t *testing.T) {
	t.Parallel()
	url, asked := echoing(t)
	server := double.Start(t)
	told := make(chan struct{}, 1000)
	server.Inject(double.Told("Delete", 0, told)) // the last word on each change
	var log written
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		o.Models = append(o.Models, agents.Model{Name: "echo", Provider: "openai", Model: "m", Endpoint: url, Secret: "model", Tier: 2, Context: 200_000,
			MaxOutput: 4_000, Tools: true, Residency: "local", Free: true})
		revised("research-assistant", func(r *agents.Revision) { r.Models = []string{"echo"} })(o)
	}, config: func(c *wire.Config) {
		c.Secrets["model"] = keyCanary
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Memory.Qdrant = qdrant.Config{URL: server.URL(), Logger: c.Log}
	}})
	liam, amara := h.as(outsider), h.as(asker) // sales, finance
	h.platform.Config.Log.Info("the log is read", "control", "canary-control")

	draft := client.MemoryDraft{Space: "department:sales", Subject: subjectCanary, Text: "We saw a " + replacedCanary + "."}
	first, err := liam.Remember(t.Context(), draft)
	require.NoError(t, err)
	<-told
	draft.Text = "We saw a " + textCanary + "."
	kept, err := liam.Supersede(t.Context(), first.Item.ID, draft)
	require.NoError(t, err)
	<-told
	private, err := liam.Remember(t.Context(), client.MemoryDraft{Space: "person:" + outsider, Text: "Mine is the " + privateCanary + "."})
	require.NoError(t, err)
	<-told
	document, err := liam.RememberDocument(t.Context(), client.Document{Name: nameCanary, Content: []byte("# " + headingCanary + "\n\nA " + documentCanary + ".\n"),
		Draft: client.MemoryDraft{Space: "department:sales"}})
	require.NoError(t, err)
	require.Positive(t, document.Added)
	<-told
	_, err = liam.Promote(t.Context(), kept.Item.ID, promotionCanary)
	require.NoError(t, err)
	<-told
	found, err := liam.Recall(t.Context(), client.MemoryQuestion{Query: "Which " + questionCanary + "?", Most: 10})
	require.NoError(t, err)
	require.NotEmpty(t, found.Hits)
	run, err := liam.StartRun(t.Context(), client.Start{Agent: "research-assistant", Goal: "Where is the lapwing of the quarry?"})
	require.NoError(t, err)
	liam.until(run.ID, "turn_failed")
	require.Contains(t, string(asked()), textCanary, "the run was told of it")
	export, err := liam.Export(t.Context(), run.ID)
	require.NoError(t, err)

	asks := func(who *person, receipt string) []byte {
		return who.post(everything, map[string]any{"query": "Which " + questionCanary + "?", "id": private.Item.ID, "ids": []string{first.Item.ID, kept.Item.ID, private.Item.ID}, "receipt": receipt})
	}
	answered := asks(liam, "none")
	for _, secret := range []string{textCanary, subjectCanary, privateCanary, documentCanary, headingCanary, nameCanary} {
		require.Contains(t, string(answered), secret, "who may read it reads it")
	}
	places := map[string][]byte{"an answer to somebody else": asks(amara, "none"), "an answer to a stranger to it": asks(h.as(operator), "none"), "the export": []byte(export)}
	for _, what := range []client.Forget{{Items: []string{kept.Item.ID, private.Item.ID}}, {Ref: nameCanary}} {
		receipt, err := liam.Forget(t.Context(), what)
		require.NoError(t, err)
		require.NotNil(t, receipt.VerifiedAt)
		places["an answer after forgetting"] = asks(liam, receipt.ID)
	}
	places["its whole run"] = liam.post(whole, map[string]any{"id": run.ID})
	h.close()

	places["the log"] = log.bytes()
	for n, request := range server.Requests("") {
		places[fmt.Sprintf("call %d of the index's server, %s", n, request.Method)] = request.Bytes
	}
	for name, content := range stored(t, h.folder) {
		places[name] = content
	}
	for place, control := range map[string]string{"the log": "canary-control", "gantry.db": "research-assistant", "an answer to somebody else": `"memorySpaces"`, "its whole run": `"goal"`} {
		require.Contains(t, string(places[place]), control, "%s is looked into", place)
	}
	server.RequireGuarded(t)
	for _, secret := range []string{textCanary, replacedCanary, subjectCanary, privateCanary, questionCanary, promotionCanary, documentCanary, headingCanary, nameCanary, keyCanary} {
		for form, text := range forms(secret) {
			for place, content := range places {
				require.False(t, bytes.Contains(content, []byte(text)), "%s stands in %s as %s", secret, place, form)
			}
		}
	}
}
