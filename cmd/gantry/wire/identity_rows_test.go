package wire_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The ledger has the adjustment, once, with the right amount, under the right
// key, and it answers: but it says that somebody else booked it. Then the run
// does not claim to be done.
func TestFault_N6_AnEffectUnderAnotherIdentityIsNoSuccess(t *testing.T) {
	t.Parallel()
	mine := `"actor":{"client":"gantry","chain":["` + asker + `","agent:` + reconciler + `"]}`
	for name, c := range map[string]struct {
		actor   string
		verdict string
		code    string
	}{
		"its own":                   {mine, "PASSED", ""},
		"another person's":          {strings.Replace(mine, asker, colleague, 1), "FAILED", "NOT_SO"},
		"another agent's":           {strings.Replace(mine, reconciler, "policy-librarian", 1), "FAILED", "NOT_SO"},
		"the person's own":          {strings.Replace(mine, `,"agent:`+reconciler+`"`, "", 1), "FAILED", "NOT_SO"},
		"another client's":          {strings.Replace(mine, `"gantry"`, `"another"`, 1), "FAILED", "NOT_SO"},
		"of a client that is lost":  {strings.Replace(mine, `"client":"gantry",`, "", 1), "UNCHECKED", "UNCHECKED"},
		"of a chain that is turned": {`"actor":{"client":"gantry","chain":["agent:` + reconciler + `","` + asker + `"]}`, "FAILED", "NOT_SO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHouse(t, plan{ledger: func(next http.Handler) http.Handler { return attributed(next, mine, c.actor) }})
			amara, tomas := h.as(asker), h.as(controller)
			run := amara.begin("INV-1004")
			tomas.decide(tomas.held(run.ID), true)
			var verified struct {
				Checks []struct{ Name, Verdict, Code string }
			}
			require.NoError(t, amara.until(run.ID, "verified").Decode(&verified))
			require.Equal(t, 1, h.entries("INV-1004"))
			found := map[string][]string{}
			for _, check := range verified.Checks {
				found[check.Name] = []string{check.Verdict, check.Code}
			}
			require.Equal(t, []string{c.verdict, c.code}, found["adjustment-in-ledger"])
			if c.verdict == "PASSED" {
				require.Equal(t, "COMPLETED", amara.ended(run.ID).Status)
				return
			}
			got, err := amara.Run(t.Context(), run.ID)
			require.NoError(t, err)
			require.NotEqual(t, "COMPLETED", got.Status)
		})
	}
}

// attributed lets a ledger that is read say that somebody else booked.
func attributed(next http.Handler, mine, actor string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !r.URL.Query().Has("invoice") {
			next.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		body := recorded.Body.Bytes()
		var answer struct{ Entries []json.RawMessage }
		if err := json.Unmarshal(body, &answer); err == nil && len(answer.Entries) > 0 && !bytes.Contains(body, []byte(mine)) {
			body = []byte("the test's actor is not the ledger's")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(bytes.ReplaceAll(body, []byte(mine), []byte(actor)))
	})
}
