package cases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry.dev/orchestrator/policy"
)

// Run decides the case and returns one sentence for each thing that came out
// otherwise than it must. None means that the case holds.
func (c Case) Run(set *policy.Set, dir policy.Directory) []string {
	return c.differences(policy.Decide(c.Request, set, dir), dir)
}

func (c Case) differences(verdict policy.Verdict, dir policy.Directory) []string {
	got := map[string]string{
		"expect":  string(verdict.Answer),
		"would":   string(verdict.Would),
		"because": strings.Join(policies(verdict), ", "),
		"by":      strings.Join(deciders(verdict), ", "),
		"quorum":  strconv.Itoa(verdict.Quorum),
		"expires": (time.Duration(verdict.ExpiresMs) * time.Millisecond).String(),
	}
	var wrong []string
	for _, key := range wants {
		want, given := c.want[key]
		if !given {
			continue
		}
		switch key {
		case "because", "by":
			names := list(want)
			slices.Sort(names)
			want = strings.Join(names, ", ")
		case "settled", "unsettled":
			got[key] = c.grants(verdict, list(want), dir, want)
			want = key + " by " + want
		}
		if got[key] != want {
			wrong = append(wrong, fmt.Sprintf("%s: want %q, got %q", key, want, got[key]))
		}
	}
	return wrong
}

func (c Case) grants(verdict policy.Verdict, ids []string, dir policy.Directory, written string) string {
	var people []policy.Principal
	for _, id := range ids {
		people = append(people, policy.Principal{ID: id})
	}
	if policy.Settled(verdict.Approvers, people, c.Request.Chain, dir) {
		return "settled by " + written
	}
	return "unsettled by " + written
}

func policies(verdict policy.Verdict) []string {
	var ids []string
	for _, reason := range verdict.Reasons {
		ids = append(ids, reason.Policy)
	}
	slices.Sort(ids)
	return ids
}

func deciders(verdict policy.Verdict) []string {
	var names []string
	for _, approver := range verdict.Approvers {
		if approver.Role != "" {
			names = append(names, "role:"+approver.Role)
			continue
		}
		names = append(names, approver.Principal)
	}
	slices.Sort(names)
	return names
}
