// Package cases reads files of requests with the verdicts they must get. They
// are how an organisation tests its policies, and how Gantry tests its own
// rules. It is pure.
//
// A file is a list of cases. A case is a block of lines "key: value"; blocks
// are set apart by empty lines; a line that begins with # is a comment:
//
//	case: a small adjustment goes through
//	subject: alice
//	agent: invoice-reconciler
//	tool: ledger.post_adjustment
//	resource: ledger:invoice/INV-017
//	fact amountCents: 12000
//	stage: AUTOMATE
//	expect: PERMIT
//	because: small-adjustment
//
// The keys of a request are
//
//	subject    principal id, looked up in the directory
//	agent      principal id of the agent, looked up in the directory
//	chain      principal ids, comma separated; without it subject, agent
//	tool       name of a registered tool
//	impact     an impact, in place of the tool's own; "unset" for none
//	resource   text
//	fact NAME  a JSON value
//	labels     comma separated
//	integrity  TRUSTED (when left out), TOOL or UNTRUSTED
//	untrusted  yes or no (when left out): steered by untrusted text
//	cost       micro-dollars
//	stage      a stage; AUTOMATE when left out
//	at         UTC, as 2026-01-05T09:00:00Z
//
// and of what must come out, each checked only when it is given
//
//	expect     the answer; every case has it
//	would      what a SIMULATE would have been
//	because    ids of all policies and rules that decided, comma separated
//	by         who decides, comma separated: a principal id or role:NAME
//	quorum     people needed at least
//	expires    how long the hold stays open, as 48h0m0s
//	settled    principal ids, comma separated: their grants must suffice
//	unsettled  the same: their grants must not suffice
package cases

import (
	"bytes"
	"strings"

	"gantry.dev/orchestrator/policy"
)

// Case is one request with what must come out.
type Case struct {
	Name    string
	File    string
	Line    int // where the case begins, from 1
	Request policy.Request
	want    map[string]string
}

// Parse reads a file of cases against the tools and the directory they speak
// of. Its error is policy.Faults, with everything that was found.
func Parse(file policy.File, tools []policy.ToolShape, dir policy.Directory) ([]Case, error) {
	var (
		cases  []Case
		faults policy.Faults
	)
	for _, block := range blocks(file) {
		read, wrong := block.read(tools, dir)
		cases, faults = append(cases, read), append(faults, wrong...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return cases, nil
}

// field is one line of a case.
type field struct {
	line       int
	key, value string
}

// block is the lines of one case.
type block struct {
	file   string
	fields []field
}

func blocks(file policy.File) []block {
	var found []block
	open := false
	line := 0
	for raw := range bytes.SplitSeq(file.Text, []byte("\n")) {
		line++
		text := strings.TrimSpace(string(raw))
		if strings.HasPrefix(text, "#") {
			continue
		}
		if text == "" {
			open = false
			continue
		}
		if !open {
			found, open = append(found, block{file: file.Name}), true
		}
		key, value, _ := strings.Cut(text, ":")
		last := &found[len(found)-1]
		last.fields = append(last.fields, field{line, strings.TrimSpace(key), strings.TrimSpace(value)})
	}
	return found
}

func list(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
