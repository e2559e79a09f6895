package ledger_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/tool"
)

// declared is how an organisation declares the ledger as a tool.
const declared = `
name: ledger.adjust
description: Books an adjustment to an invoice. Amounts are cents; a negative one is a refund.
input:
  type: object
  required: [invoice, amountCents, currency, reason]
  properties:
    invoice: {type: string, pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
    amountCents: {type: integer}
    currency: {type: string, pattern: "^[A-Z]{3}$"}
    reason: {type: string, minLength: 1, maxLength: 500}
output:
  type: object
  required: [id, actor]
  additionalProperties: true
  properties: {id: {type: string}}
impact: IRREVERSIBLE
class: KEYED
resource: "ledger:{/invoice}"
facts: {amountCents: /amountCents, invoice: /invoice}
control: [/invoice, /amountCents, /currency]
costBound: 0
timeout: 30s
resultBytes: 16384
credential: ledger-token
owner: person:treasurer
contact: finance@example.org
result: {labels: [finance], integrity: TOOL}
kind: http
server:
  method: POST
  url: BASE/v1/adjustments
  auth: {scheme: bearer}
  idempotencyHeader: Idempotency-Key
  actorHeader: X-Acting-Chain
  query: {method: GET, url: "BASE/v1/adjustments?key={key}", found: /entries/0}
`

type secret string

func (s secret) Secret(_ context.Context, use credential.Use) (credential.Secret, error) {
	return credential.Bound(string(s), use.Audience), nil
}

func TestFault_E8_AKeyedToolFindsAndRepeatsACutEffectOnce(t *testing.T) {
	var cut atomic.Bool
	cut.Store(true)
	c := open(t, filepath.Join(t.TempDir(), "ledger.db"), func(*http.Request) {
		if cut.Swap(false) {
			panic(http.ErrAbortHandler)
		}
	})
	definition, err := tool.ReadDefinition([]byte(strings.ReplaceAll(declared, "BASE", c.base)))
	require.NoError(t, err)
	address, err := url.Parse(c.base)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	egress, err := tool.NewEgress([]tool.Destination{{Host: address.Hostname(), Port: port, Internal: true}}, nil, nil)
	require.NoError(t, err)
	adjust, err := tool.NewHTTP(definition, egress, secret(token))
	require.NoError(t, err)
	box, err := tool.NewBox(adjust)
	require.NoError(t, err)
	checked, refusal := box.Check("ledger.adjust", []byte(good))
	require.Nil(t, refusal)
	invocation := tool.Invocation{Key: "key-1", Arguments: checked.Arguments, Actor: []string{"person:ada", "agent:billing, eu"}}

	_, found, err := tool.Probe(t.Context(), adjust.(tool.Prober), definition, invocation)
	require.NoError(t, err)
	require.False(t, found)

	_, err = tool.Invoke(t.Context(), adjust, invocation)
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.Uncertain)

	probed, found, err := tool.Probe(t.Context(), adjust.(tool.Prober), definition, invocation)
	require.NoError(t, err)
	require.True(t, found)
	require.JSONEq(t, booked, string(probed.Content))

	repeated, err := tool.Invoke(t.Context(), adjust, invocation)
	require.NoError(t, err)
	require.JSONEq(t, booked, string(repeated.Content))
	require.Equal(t, definition.Result, repeated.Marking)
	require.JSONEq(t, `{"count":1}`, c.get("/v1/count"))

	other := invocation
	other.Arguments = []byte(strings.Replace(string(checked.Arguments), "1250", "1", 1))
	refused, err := tool.Invoke(t.Context(), adjust, other)
	require.NoError(t, err)
	require.True(t, refused.Failed)
	require.True(t, json.Valid(refused.Content))
}
