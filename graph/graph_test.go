package graph_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

const runQuery = `query($id:ID!){run(id:$id){status waitingFor goal{value} subject{name} turns{text{value withheld{reason} labels}}
 approvals{id digest resource consequence guarantee arguments{value display} approvers{principal{name}}} events{edges{node{event}}}}
 audit(run:$id){verified records{seq digest event}}}`

func TestRunIsShownWithItsApproval(t *testing.T) {
	s := serve(t)
	got := s.ask(t, "anna", runQuery, map[string]any{"id": s.runID(t)})
	require.Empty(t, got.Errors, got.raw)
	require.Contains(t, got.raw, `"status":"WAITING"`)
	require.Contains(t, got.raw, `"waitingFor":["APPROVAL"]`)
	require.Contains(t, got.raw, `"value":"pay the invoice"`)
	require.Contains(t, got.raw, `"value":"salary 7"`)
	require.Contains(t, got.raw, `\\u{202E}x`, "direction characters are shown for what they are")
	require.Contains(t, got.raw, `"resource":"bank:account/7"`)
	require.Contains(t, got.raw, `"verified":true`)
}

func TestTextsAreWithheldInPlace(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	delete(s.texts, "goal") // erased
	got := s.ask(t, "bob", runQuery, map[string]any{"id": id})
	require.Empty(t, got.Errors, got.raw)
	require.NotContains(t, got.raw, "salary")
	require.NotContains(t, got.raw, `hr`, "nor the label")
	require.NotContains(t, got.raw, "tok-1")
	require.NotContains(t, got.raw, "tok-digest")
	require.Contains(t, got.raw, `"goal":{"value":"[redacted]"}`)
	require.Contains(t, got.raw, `{"text":{"value":"[redacted]","withheld":[{"reason":"NOT_CLEARED"}],"labels":[]}}`)
}

func TestKillsAreShownAndLifted(t *testing.T) {
	s := serve(t)
	got := s.ask(t, "anna", `{kills{scope name by{principal} reason at}}`, nil)
	require.Empty(t, got.Errors, got.raw)
	require.Contains(t, got.raw, `{"scope":"AGENT","name":"payer","by":{"principal":"anna"},"reason":"odd bookings","at":"1970-01-01T00:00:01Z"}`)
	got = s.ask(t, "anna", `mutation{liftKill(input:{scope:AGENT,name:"payer",clientMutationId:"m"}){outcome awaitsSecondPerson clientMutationId userErrors{code}}}`, nil)
	require.Contains(t, got.raw, `{"outcome":"ACCEPTED","awaitsSecondPerson":true,"clientMutationId":"m","userErrors":[]}`)
}

func TestAbsentAndForbiddenLookTheSame(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	forbidden := s.ask(t, "eve", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": id})
	for name, absent := range map[string]string{"nonsense": "nonsense", "other kind": base64.RawURLEncoding.EncodeToString([]byte(`["agent","evil","x"]`)),
		"absent": base64.RawURLEncoding.EncodeToString([]byte(`["run","evil","r9"]`))} {
		got := s.ask(t, "eve", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": absent})
		require.Equal(t, "NOT_FOUND", got.code(), name)
		require.Equal(t, forbidden.raw, got.raw, name)
	}
	for _, mutation := range []string{`cancelRun(input:{run:$id})`, `steerRun(input:{run:$id,text:"x"})`, `resumeRun(input:{run:$id})`} {
		got := s.ask(t, "eve", `mutation($id:ID!){`+mutation+`{run{id} userErrors{code message}}}`, map[string]any{"id": id})
		require.Contains(t, got.raw, `"code":"NOT_FOUND"`, mutation)
	}
	require.Empty(t, s.commands)
	node := s.ask(t, "eve", `query($id:ID!){node(id:$id){id} nodes(ids:[$id]){id}}`, map[string]any{"id": id})
	require.Contains(t, node.raw, `"nodes":[null]`)
}

func TestIDsWorkInTheirOrganisationOnly(t *testing.T) {
	s := serve(t)
	own := base64.RawURLEncoding.EncodeToString([]byte(`["run","acme","r1"]`))
	other := base64.RawURLEncoding.EncodeToString([]byte(`["run","evil","r1"]`))
	require.Empty(t, s.ask(t, "anna", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": own}).Errors)
	require.Equal(t, "NOT_FOUND", s.ask(t, "anna", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": other}).code())
}

func TestDecisionReachesTheRun(t *testing.T) {
	s := serve(t)
	inbox := s.ask(t, "bob", `{inbox{kind approval{id digest requester{principal} subject{principal}}}}`, nil)
	require.Empty(t, inbox.Errors, inbox.raw)
	approval := inbox.Data["inbox"].([]any)[0].(map[string]any)["approval"].(map[string]any)
	mutation := `mutation($id:ID!,$digest:String!){decideApproval(input:{id:$id,digest:$digest,decision:APPROVE,reason:"fine",commandId:"c1",clientMutationId:"m"}){run{id} outcome userErrors{code} clientMutationId}}`
	variables := map[string]any{"id": approval["id"], "digest": approval["digest"]}
	got := s.ask(t, "bob", mutation, variables)
	require.Empty(t, got.Errors, got.raw)
	require.Contains(t, got.raw, `"outcome":"ACCEPTED","userErrors":[],"clientMutationId":"m"`)
	command := s.commands[0].(run.DecideApproval)
	require.Equal(t, "ap1", command.Approval)
	require.Equal(t, "digest-1", command.Digest)
	require.True(t, command.Granted)
	require.Equal(t, "bob", command.By.Principal)
	require.Equal(t, "bob", command.Person.ID)
	s.replayed = true
	require.Contains(t, s.ask(t, "bob", mutation, variables).raw, `"outcome":"REPLAYED"`)
	s.refusal = &run.Refusal{Code: "DIGEST_MISMATCH", Detail: "Read it again."}
	require.Contains(t, s.ask(t, "bob", mutation, variables).raw, `"outcome":null,"userErrors":[{"code":"DIGEST_MISMATCH"}]`)
}

func TestPanicIsInternalAndSaysNothing(t *testing.T) {
	got := serve(t).ask(t, "anna", `{agent(name:"x"){id}}`, nil)
	require.Equal(t, "INTERNAL", got.code())
	require.NotContains(t, got.raw, "secret")
}

func TestFaultsOfArgumentsHaveACode(t *testing.T) {
	s := serve(t)
	require.Equal(t, "CURSOR_INVALID", s.ask(t, "anna", `{runs(after:"x"){edges{cursor}}}`, nil).code())
	require.Equal(t, "OVER_LIMIT", s.ask(t, "anna", `{runs(first:101){edges{cursor}}}`, nil).code())
	require.Empty(t, s.ask(t, "anna", `{runs(first:100){edges{cursor}}}`, nil).Errors)
}

func TestArgumentsThatCannotBeReadAreTheCallers(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, func(c *graph.Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	for query, path := range map[string]string{
		`{usage(groupBy:AGENT,from:"yesterday",to:"2026-01-01T00:00:00Z"){key}}`:        `"path":["usage","from"]`,
		`query($t:Time!){usage(groupBy:AGENT,from:"2026-01-01T00:00:00Z",to:$t){key}}`:  `"path":["usage","to"]`,
		`mutation{setBudget(input:{node:"n",money:"much",tokens:"1"}){outcome}}`:        `"path":["setBudget","input","money"]`,
		`mutation($n:Int64!){setBudget(input:{node:"n",money:"1",tokens:$n}){outcome}}`: `"path":["setBudget","input","tokens"]`,
	} {
		got := s.ask(t, "anna", query, map[string]any{"t": "tomorrow", "n": "1.5"})
		require.Equal(t, "BAD_REQUEST", got.code(), got.raw)
		require.Contains(t, got.raw, path)
	}
	require.Empty(t, log.String())
}

func TestFirstBelowZeroSaysWhatItMayBe(t *testing.T) {
	require.Contains(t, serve(t).ask(t, "anna", `{runs(first:-1){edges{cursor}}}`, nil).raw, "first is -1, it must be 0 to 100.")
}

func TestMessagesOfTheRequestSayWhatIsMissing(t *testing.T) {
	s := serve(t)
	send := func(body string) string {
		got := s.send(t, s.token(t, "anna"), "application/json", body)
		require.Equal(t, "GRAPHQL_VALIDATION_FAILED", got.code(), got.raw)
		return got.Errors[0].Message
	}
	two := `"query":"query A{viewer{name}} query B{viewer{name}}"`
	require.Equal(t, "The document has several operations; say in operationName which one to execute.", send(`{`+two+`}`))
	require.Equal(t, `The document has no operation "C"; operationName must be the name of one that it has.`, send(`{`+two+`,"operationName":"C"}`))
	require.Less(t, len(send(`{`+two+`,"operationName":"`+strings.Repeat("x", 100_000)+`"}`)), 600)
	require.Empty(t, s.send(t, s.token(t, "anna"), "application/json", `{`+two+`,"operationName":"B"}`).Errors)
	require.Equal(t, "variable $id: must be defined", send(`{"query":"query($id:ID!){run(id:$id){id}}"}`))
	require.Contains(t, send(`{"query":"mutation($i:StartRunInput!){startRun(input:$i){outcome}}","variables":{"i":{"agent":1}}}`), "variable $i.")
}

func TestSchemaIsForOperators(t *testing.T) {
	s := serve(t)
	refused := s.ask(t, "anna", `{__schema{types{name}}}`, nil)
	require.Equal(t, "GRAPHQL_VALIDATION_FAILED", refused.code())
	require.Contains(t, refused.Errors[0].Message, "Only operators may ask for the schema")
	require.Empty(t, s.ask(t, "olga", `{__schema{types{name}}}`, nil).Errors)
	require.NotContains(t, s.ask(t, "anna", `{viewr{name}}`, nil).raw, "Did you mean")
	require.Contains(t, s.ask(t, "olga", `{viewr{name}}`, nil).raw, "Did you mean")
}

func TestEveryPartOfTheSchemaIsDescribed(t *testing.T) {
	got := serve(t).ask(t, "olga", `{__schema{types{name description fields{name description args{name description}} inputFields{name description} enumValues{name description}}}}`, nil)
	require.Empty(t, got.Errors)
	for _, one := range got.Data["__schema"].(map[string]any)["types"].([]any) {
		kind := one.(map[string]any)
		if strings.HasPrefix(kind["name"].(string), "__") {
			continue
		}
		require.NotEmpty(t, kind["description"], kind["name"])
		for _, part := range []string{"fields", "inputFields", "enumValues"} {
			list, _ := kind[part].([]any)
			for _, field := range list {
				f := field.(map[string]any)
				require.NotEmpty(t, f["description"], "%s.%s", kind["name"], f["name"])
				args, _ := f["args"].([]any)
				for _, arg := range args {
					require.NotEmpty(t, arg.(map[string]any)["description"], "%s.%s", kind["name"], f["name"])
				}
			}
		}
	}
}

func TestExplorerLoadsNothingFromElsewhere(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/", "/graphiql.min.js", "/graphiql.min.css", "/react.production.min.js", "/react-dom.production.min.js", "/explorer.js"} {
		response, err := http.Get(s.url + path)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode, path)
		policy := response.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "http")
		require.NotEmpty(t, readAll(t, response))
		response.Body.Close()
	}
}
