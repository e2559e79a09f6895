package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/lending"
)

// One revision answers HR and sales, each what they may know; the bills are
// apart, and what is taken back is gone.
func TestDemoOfLendingAnswersTwoDepartmentsFromOneRevision(t *testing.T) {
	out, err := gantry(t, "demo", "lending", "--json")
	require.NoError(t, err)
	var result lending.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Contains(t, result.Partner, "4300 to 5900")
	require.True(t, strings.HasPrefix(result.Borrower, "Yes"), result.Borrower)
	require.NotContains(t, result.Borrower, "5900")
	require.Equal(t, "IN_FORCE", result.Share.Status)
	require.Positive(t, result.MicroUSD["hr"])
	require.Positive(t, result.MicroUSD["sales"])
	require.Len(t, result.Checks, 8)
}

func TestLendingAtTheCommandLine(t *testing.T) {
	atHome(t)
	say := func(args ...string) string { return must(t, args...) }
	require.Contains(t, say("catalogue", "--as", "liam.byrne"), "ask for a share")
	asked := say("request-share", "pay-librarian", "--as", "liam.byrne", "--reason", "offers", "--label", "hr-salary", "--yes-no", "within-band=Whether it fits.", "--tool", "files.read:read:3", "--for", "24h", "--consults", "1", "--usd", "0.05")
	id := strings.Fields(asked)[0]
	require.Contains(t, asked, "waits for Ruth Abelson (agent:pay-librarian)", "who owns both is named once")
	require.Contains(t, say("grants", "--waiting", "--as", "ruth.abelson"), id)
	require.Contains(t, say("agree", id, "--as", "ruth.abelson"), "asked")
	require.Contains(t, say("agree", id, "--as", "keiko.tanaka"), "in force")
	require.Contains(t, say("catalogue", "--as", "liam.byrne"), "by share "+id)
	require.Contains(t, say("take-back", id, "--as", "ruth.abelson", "--reason", "over"), "recalled")
	require.NotContains(t, say("catalogue", "--as", "liam.byrne"), id)

	yields := filepath.Join(t.TempDir(), "yields.json")
	require.NoError(t, os.WriteFile(yields, []byte(`[{"name":"band","description":"Which band fits.","schema":{"type":"string","enum":["A","B","none"]}}]`), 0o600))
	shared := say("share", "pay-librarian", "--department", "finance", "--pin", "--reason", "payroll", "--label", "hr-salary", "--yields", yields, "--as", "ruth.abelson")
	require.Contains(t, shared, "asked")
	require.Contains(t, say("refuse", strings.Fields(shared)[0], "--reason", "no", "--as", "keiko.tanaka"), "refused")
	_, err := gantry(t, "share", "pay-librarian", "--reason", "x", "--tool", "files.read", "--department", "sales", "--as", "ruth.abelson")
	require.ErrorContains(t, err, "NAME:IMPACT:CALLS")
	delegation := say("delegation", "policy-librarian", "invoice-reconciler", "--reason", "Whether a supplier was paid.", "--tool", "ledger.find_adjustments:READ:2", "--label", "finance", "--as", "marta.lindqvist")
	require.Contains(t, delegation, "asked  delegation of invoice-reconciler from policy-librarian, with the labels finance")
	_, err = gantry(t, "delegation", "policy-librarian", "invoice-reconciler", "--reason", "x", "--usd", "1", "--as", "marta.lindqvist")
	require.ErrorContains(t, err, "unknown flag: --usd", "a delegation adds nothing that is counted")
	require.Equal(t, "there is no such grant that you may know of\n", say("grants", "--as", "pieter.vanacker"))
}
