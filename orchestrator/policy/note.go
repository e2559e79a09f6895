package policy

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// note is what a policy says in its annotations.
type note struct {
	id        string
	reason    string
	hold      string // empty for a policy that holds nothing
	quorum    int    // distinct people, at least 1
	expiresMs int64  // 0 when not said
}

// Who a hold can name, besides "role:NAME".
const (
	holdToolOwner   = "tool-owner"
	holdBudgetOwner = "budget-owner"
	holdManager     = "manager"
	holdLabelOwner  = "label-owner"
	holdRole        = "role:"
)

var (
	// Ids of policies have no colon, ids of Gantry's own rules have one.
	policyID = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
	roleHold = regexp.MustCompile(`^role:[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)
)

// readNote returns a policy's annotations and what is wrong with them.
func readNote(written *cedar.Policy) (note, []string) {
	read := note{quorum: 1}
	var problems []string
	annotations := written.Annotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if problem := read.set(string(key), string(annotations[key])); problem != "" {
			problems = append(problems, "@"+string(key)+": "+problem)
		}
	}
	if _, given := annotations["id"]; !given {
		problems = append(problems, "a policy needs an @id")
	}
	return read, append(problems, read.conflicts(annotations, written.Effect())...)
}

// set takes one annotation and returns what is wrong with it, if anything.
func (n *note) set(key, value string) string {
	var err error
	switch key {
	case "id":
		if !policyID.MatchString(value) {
			return "an id is lower-case letters and digits, with single dots, dashes or underscores between"
		}
		n.id = value
	case "reason":
		if n.reason = strings.TrimSpace(value); n.reason == "" {
			return "say why in a sentence"
		}
	case "hold":
		simple := []string{holdToolOwner, holdBudgetOwner, holdManager, holdLabelOwner}
		if !slices.Contains(simple, value) && !roleHold.MatchString(value) {
			return "who decides is one of " + strings.Join(simple, ", ") + " or role:NAME"
		}
		n.hold = value
	case "quorum":
		if n.quorum, err = strconv.Atoi(value); err != nil || n.quorum < 1 {
			return "how many people must agree is a number from 1"
		}
	case "expires":
		open, err := time.ParseDuration(value)
		if n.expiresMs = open.Milliseconds(); err != nil || n.expiresMs < 1 {
			return `how long a hold stays open is a duration such as "48h"`
		}
	default:
		return "unknown annotation; known are id, hold, quorum, expires and reason"
	}
	return ""
}

// conflicts returns what is wrong between annotations that are each right.
func (n *note) conflicts(annotations cedar.Annotations, effect cedar.Effect) []string {
	var problems []string
	_, holds := annotations["hold"]
	if holds && effect == cedar.Forbid {
		problems = append(problems, "@hold: only a permit can wait for a person")
	}
	for _, key := range []types.AnnotationKey{"quorum", "expires"} {
		if _, given := annotations[key]; given && !holds {
			problems = append(problems, "@"+string(key)+": only with @hold")
		}
	}
	if n.quorum > 1 && n.hold != "" && !strings.HasPrefix(n.hold, holdRole) {
		problems = append(problems, "@quorum: one person cannot be several; more than 1 needs a role")
	}
	return problems
}
