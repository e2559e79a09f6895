package agents

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (v *validation) agent(r Revision) {
	object := "agents/" + r.Name
	v.require(plainID.MatchString(r.Name), object, "name", "must be lower-case letters, digits, dots and dashes")
	v.accountable(object, "", r.Owner, r.Contact)
	_, known := v.o.Department(r.Department)
	v.require(known, object, "department", "there is no department %q", r.Department)
	for i, name := range r.Audience {
		_, known := v.o.Department(name)
		v.require(known, object, fmt.Sprintf("audience[%d]", i), "there is no department %q", name)
	}
	v.require(len(r.Audience) > 0, object, "audience", "name a department that may use the agent")
	_, known = v.o.Persona(r.Persona)
	v.require(known, object, "persona", "there is no persona %q", r.Persona)
	v.require(strings.TrimSpace(r.Instructions) != "", object, "instructions", "instructions are needed")
	v.require(len(r.Models) > 0, object, "models", "name a model")
	unique(v, object, "models[%d]", r.Models, func(m string) string { return m })
	for i, name := range r.Models {
		_, known := v.o.Model(name)
		v.require(known, object, fmt.Sprintf("models[%d]", i), "there is no model %q", name)
	}
	v.choice(object, r)
	v.knownLabels(object, "clearance", r.Clearance)
	v.spaces(object, r)
	v.recall(object, r.Memory)
	v.require(r.ResultBytes == 0 || r.ResultBytes >= leastResultBytes, object, "resultBytes", "must be at least %d, or left out", leastResultBytes)
	v.limits(object, r.Limits)
	unique(v, object, "tools[%d].name", r.Tools, func(u ToolUse) string { return u.Name })
	for i, use := range r.Tools {
		v.use(object, fmt.Sprintf("tools[%d].", i), use)
	}
	v.completion(object, r)
	v.requestable(object, r)
	if gate := r.Evaluation; gate != nil {
		v.require(digestForm.MatchString(gate.Cases), object, "evaluation.cases", "must be the digest of the cases; gantry eval digest prints it")
		v.require(gate.Fits(), object, "evaluation", "utility must be 0 to 1, and unsafe and approvalsPerTask not negative")
	}
	v.delegates(object, r)
	v.sidecars(object, r)
	v.automate(object, r)
	if _, err := r.Digest(); err != nil {
		v.add(object, "", "%v", err)
	}
}

func (v *validation) spaces(object string, r Revision) {
	check := func(path string, spaces []string) {
		unique(v, object, path+"[%d]", spaces, func(s string) string { return s })
		for i, space := range spaces {
			department, ofDepartment := strings.CutPrefix(space, "department:")
			_, known := v.o.Department(department)
			v.require(known && ofDepartment || slices.Contains([]string{"organisation", "conversation", "subject", "agent"}, space),
				object, fmt.Sprintf("%s[%d]", path, i),
				"must be organisation, conversation, subject, agent or department:NAME of a department that exists")
		}
	}
	check("spaces.read", r.Spaces.Read)
	check("spaces.write", r.Spaces.Write)
}

func (v *validation) limits(object string, l Limits) {
	positive := map[string]int64{
		"turns": int64(l.Turns), "tokens": l.Tokens, "duration": int64(l.Duration),
		"callsPerTurn": int64(l.CallsPerTurn), "callsAtOnce": int64(l.CallsAtOnce),
		"turnAttempts": int64(l.TurnAttempts), "callAttempts": int64(l.CallAttempts),
		"noProgress": int64(l.NoProgress) - 1, "checkAttempts": int64(l.CheckAttempts), "steers": int64(l.Steers),
		"approval": int64(l.Approval), "question": int64(l.Question), "turn": int64(l.Turn),
	}
	for name, value := range positive {
		least := 0
		if name == "noProgress" {
			least = 1 // one call alone repeats nothing
		}
		v.require(value > 0, object, "limits."+name, "must be above %d", least)
	}
	for name, value := range map[string]int64{
		"microUsd": l.MicroUSD, "repairTurns": int64(l.RepairTurns), "depth": int64(l.Depth),
		"fanOut": int64(l.FanOut), "runsAtOnce": int64(l.RunsAtOnce), "approvals": int64(l.Approvals),
	} {
		v.require(value >= 0, object, "limits."+name, "must not be negative")
	}
	v.require(l.OnLimit == run.AskOnLimit || l.OnLimit == run.FailOnLimit, object, "limits.onLimit", "must be %s or %s", run.AskOnLimit, run.FailOnLimit)
}

func (v *validation) use(object, at string, use ToolUse) {
	definition, known := v.o.Tool(use.Name)
	if !known {
		v.add(object, at+"name", "there is no tool %q", use.Name)
		return
	}
	v.require(use.Impact != policy.ImpactUnset, object, at+"impact", "the highest impact must be named")
	v.require(use.Impact == policy.ImpactUnset || definition.Impact <= use.Impact, object, at+"impact",
		"the tool's impact is %s, so no call of it would be allowed", definition.Impact)
	v.require(use.Calls > 0, object, at+"calls", "must be above 0")
	for i, c := range use.Constraints {
		v.constraint(object, fmt.Sprintf("%sconstraints[%d]", at, i), c, definition)
	}
}

func (v *validation) constraint(object, at string, c Constraint, definition tool.Definition) {
	var schema inputSchema
	_ = json.Unmarshal(definition.Input, &schema) // what cannot be read has a fault of its own
	v.require(strings.HasPrefix(c.Path, "/") && schema.has(c.Path), object, at+".path", "must be the JSON pointer of an argument of %s", definition.Name)
	v.require(c.Enum != nil || c.Min != "" || c.Max != "" || c.Prefix != nil, object, at, "bounds nothing; give enum, min, max or prefix")
	for i, value := range c.Enum {
		_, err := canon.JSON(value)
		v.require(err == nil, object, fmt.Sprintf("%s.enum[%d]", at, i), "has no canonical form")
	}
	least, okMin := new(big.Rat).SetString(c.Min.String())
	most, okMax := new(big.Rat).SetString(c.Max.String())
	v.require(!okMin || !okMax || least.Cmp(most) <= 0, object, at+".min", "must not be above max")
}

func (v *validation) completion(object string, r Revision) {
	c := r.Completion
	if len(c.Output) > 0 {
		_, err := tool.CompileSchema(c.Output)
		v.require(err == nil, object, "completion.output", "%v", err)
	}
	v.require(len(c.Output) > 0 || len(c.Required) == 0, object, "completion.required", "a free text has no fields; give an output schema")
	for i, pointer := range c.Required {
		v.require(strings.HasPrefix(pointer, "/"), object, fmt.Sprintf("completion.required[%d]", i), "must be a JSON pointer")
	}
	_, reviewed := r.Reviewer(run.ReviewsAnswer)
	v.require(reviewed || !c.Review, object, "completion.review", "name a sidecar with the purpose %s that reviews %q", run.ForCheck, run.ReviewsAnswer)
	unique(v, object, "completion.checks[%d].name", c.Checks, func(c Check) string { return c.Name })
	for i, check := range c.Checks {
		v.check(object, fmt.Sprintf("completion.checks[%d].", i), r, check)
	}
}

func (v *validation) check(object, at string, r Revision, c Check) {
	v.require(plainID.MatchString(c.Name), object, at+"name", "must be lower-case letters, digits, dots and dashes")
	v.require(c.Name != run.ReviewCheck && c.Name != OutputCheck, object, at+"name", "%q is the name of a check that the platform makes", c.Name)
	for part, err := range c.faults() {
		v.add(object, at+part, "%v", err)
	}
	if c.Identity != AsAgent && c.Identity != AsSubject {
		_, known := v.o.Principal(c.Identity)
		v.require(known, object, at+"identity", "must be %s, %s or the id of a principal", AsAgent, AsSubject)
	}
	if c.Tool != "" {
		definition, _ := v.o.Tool(c.Tool)
		v.require(uses(r, c.Tool) && definition.Impact == policy.ImpactRead, object, at+"tool", "must be a tool of the agent that only reads")
	}
	v.require(c.Tool != "" || len(c.Arguments) == 0, object, at+"arguments", "without a tool there is nothing to give them to")
	v.require(c.Tool != "" || c.Artifact == nil, object, at+"artifact", "name the tool that reads it")
	if len(c.Confirms) > 0 {
		v.require(c.looks(), object, at+"confirms", "only a check that reads with a tool and looks at the result confirms anything")
		v.require(c.When == "" || !beforeCall.Uses(c.When, "output"), object, at+"when",
			"must not look at output: the model could talk its way past what the check confirms; look at calls")
	}
	for i, name := range c.Confirms {
		definition, _ := v.o.Tool(name)
		v.require(uses(r, name) && definition.Impact > policy.ImpactRead, object, fmt.Sprintf("%sconfirms[%d]", at, i), "must be a tool of the agent with an impact above READ")
	}
}

// automate refuses the freest stage where an effect would go unverified, and at
// any stage at which something happens, that a reviewer's word is to stand for
// looking.
func (v *validation) automate(object string, r Revision) {
	switch stage := v.o.Stage(r); {
	case stage == policy.Automate:
		for _, name := range unconfirmed(v.o, r) {
			v.add(object, "stage", "AUTOMATE needs a completion check that confirms %s by reading it back", name)
		}
	case r.Completion.Review && stage != policy.Observe:
		for _, name := range unconfirmed(v.o, r) {
			v.add(object, "completion.review", "a reviewer's word does not confirm %s; give a check that reads it back", name)
		}
	}
}

// unconfirmed returns the tools above READ that no check reads back.
func unconfirmed(o Organisation, r Revision) []string {
	var names []string
	for _, use := range r.Tools {
		definition, _ := o.Tool(use.Name)
		confirmed := slices.ContainsFunc(r.Completion.Checks, func(c Check) bool {
			return c.Tool != "" && slices.Contains(c.Confirms, use.Name)
		})
		if definition.Impact.OrWorst() > policy.ImpactRead && !confirmed {
			names = append(names, use.Name)
		}
	}
	return names
}

func uses(r Revision, name string) bool {
	return slices.ContainsFunc(r.Tools, func(u ToolUse) bool { return u.Name == name })
}

// delegates finds what does not fit in whom an agent may hand work to.
func (v *validation) delegates(object string, r Revision) {
	for i, d := range r.Delegates {
		at := fmt.Sprintf("delegates[%d].", i)
		_, known := v.o.Agent(d.Agent)
		v.require(known, object, at+"agent", "there is no agent %q", d.Agent)
		for n, kind := range d.As {
			v.require(kind == run.SubAgent || kind == run.Sidecar, object, fmt.Sprintf("%sas[%d]", at, n), "must be %s or %s", run.SubAgent, run.Sidecar)
		}
		v.require(d.MicroUSD >= 0 && d.Tokens >= 0 && d.Turns >= 0 && d.Duration >= 0, object, at+"microUsd", "no bound may be negative")
		v.require(d.ResultBytes >= 0 && d.ResultBytes <= mostResultBytes, object, at+"resultBytes", "must be 0 to %d", mostResultBytes)
	}
	if len(r.Delegates) == 0 {
		v.require(!r.Branches, object, "branches", "an agent that hands on no work has no branches")
		return
	}
	v.require(uses(r, tool.DelegateName), object, "delegates", "the agent needs the tool %s to hand work on", tool.DelegateName)
	v.require(r.Limits.Depth > 0, object, "limits.depth", "must be above 0 for an agent that hands work on")
	v.require(r.Limits.FanOut > 0, object, "limits.fanOut", "must be above 0 for an agent that hands work on")
	v.require(r.Limits.RunsAtOnce > 0, object, "limits.runsAtOnce", "must be above 0 for an agent that hands work on")
}

// sidecars finds what does not fit in what goes on beside an agent's runs.
func (v *validation) sidecars(object string, r Revision) {
	reviewed := map[string]bool{}
	for i, s := range r.Sidecars {
		at := fmt.Sprintf("sidecars[%d].", i)
		_, known := v.o.Agent(s.Agent)
		v.require(known && s.Agent != r.Name, object, at+"agent", "must be another agent of the organisation")
		v.require(slices.Contains([]run.Purpose{run.ForResearch, run.ForMonitor, run.ForCheck, run.ForMemory}, s.Purpose), object, at+"purpose",
			"must be %s, %s, %s or %s", run.ForResearch, run.ForMonitor, run.ForCheck, run.ForMemory)
		v.require(strings.TrimSpace(s.Brief) != "", object, at+"brief", "say what it is to do")
		v.require(s.MicroUSD >= 0 && s.Tokens >= 0 && s.Turns >= 0 && s.Duration >= 0, object, at+"microUsd", "no bound may be negative")
		v.require(s.ResultBytes >= 0 && s.ResultBytes <= mostResultBytes, object, at+"resultBytes", "must be 0 to %d", mostResultBytes)
		checks := s.Purpose == run.ForCheck
		v.require(checks == (len(s.Reviews) > 0), object, at+"reviews", "a %s reviews something, and nothing else does", run.ForCheck)
		v.require(checks || !s.Guards, object, at+"guards", "only a %s guards a turn", run.ForCheck)
		v.require(!checks || s.Lands == "" && !s.Outlives, object, at+"lands", "a review ends with its verdict")
		v.require(slices.Contains([]run.Landing{"", run.LandsAsSteer, run.LandsAsEvidence, run.LandsAsMessage}, s.Lands), object, at+"lands",
			"must be %s, %s or %s", run.LandsAsSteer, run.LandsAsEvidence, run.LandsAsMessage)
		for n, of := range s.Reviews {
			v.require(!reviewed[of] && (of == run.ReviewsAnswer || uses(r, of)), object, fmt.Sprintf("%sreviews[%d]", at, n),
				"must be %q or a tool of the agent, once", run.ReviewsAnswer)
			reviewed[of] = true
		}
	}
	if len(reviewed) > 0 {
		v.require(r.Limits.Depth > 0 && r.Limits.FanOut > 0 && r.Limits.RunsAtOnce > 0, object, "limits.depth",
			"depth, fanOut and runsAtOnce must be above 0 for an agent whose work is reviewed")
	}
}
