package simulate

// change replaces one place of a file. PLANTED in it is true in the process
// that is to have the fault; in any other, the text means what it meant.
type change struct{ from, to string }

// mutant removes one rule of the engine or of the core. Whoever is named must
// find that: a walk of the explorer, by the scope's name, or the seeds, by a
// part of what the broken one says. A rule of the core may have its own test.
type mutant struct {
	rule, file        string
	changes           []change
	test, walk, finds string
	seed              int // the first that found it: the search begins there, and goes on
}

var mutants = []mutant{
	{"fencing", "run/journalform.go",
		[]change{{"if epoch != 0 && epoch != head.Epoch {", "if !PLANTED && epoch != 0 && epoch != head.Epoch {"}},
		"TestAStaleEpochIsFenced", "held keyed call", "was accepted under epoch", 4},
	{"no outcome without an intent", "run/decide_call.go",
		[]change{{"|| c.Intent < 1 ||", "|| !PLANTED && c.Intent < 1 ||"}},
		"TestNoOutcomeWithoutAnIntent", "a word on nothing", "", 0},
	{"no blind retry", "run/decide_call.go",
		[]change{{"return class == policy.ClassRead || class == policy.Keyed", "return class == policy.ClassRead || class == policy.Keyed || PLANTED && class != policy.Checkable"},
			{"ask := class == policy.Opaque || mayRepeat", "ask := !PLANTED && class == policy.Opaque || mayRepeat"}},
		"TestFault_B2_OnlySafeClassesAreRepeatedBlindly", "read and opaque, taken over", "(OPAQUE)", 49},
	{"an approval is spent", "run/apply_call.go",
		[]change{{"approval.Status = ApprovalSpent", "if !PLANTED {\n approval.Status = ApprovalSpent\n}"}},
		"TestCase_05_AnApprovalIsSpentOnce", "held keyed call", "", 0},
	{"an intent depends on its tree", "run/decide.go",
		[]change{{"Guard{Gate: RootGate(d.s.Started.Root), ", "Guard{Gate: unless(PLANTED, RootGate(d.s.Started.Root)), "}},
		"TestAnIntentMakesItsConditions", "cancelled by its tree", "", 0},
	{"an approval is good when it is used", "run/decide_call.go",
		[]change{{", BeforeMs: approval.NotAfterMs})", ", BeforeMs: unless(PLANTED, approval.NotAfterMs)})"}},
		"TestAnIntentMakesItsConditions", "held call, policy changes", "", 0},
	{"takeover", "run/journalform.go",
		[]change{{" || head.LeaseUntil <= nowMs", " || !PLANTED && head.LeaseUntil <= nowMs"}},
		"TestARunIsTakenOverWhenItsLeaseEnds", "held keyed call", "long after the faults stopped", 2},
	{"absent is no proof", "run/decide_call.go",
		[]change{{"Cause: call.Code, Ask: true})", "Cause: call.Code, Ask: !PLANTED})"}},
		"TestAbsentIsNoProof", "", "long after the faults stopped", 25},
	{"a turn is settled once", "run/decide_turn.go",
		[]change{{" || turn.Phase != TurnInFlight {", " || !PLANTED && turn.Phase != TurnInFlight {"}},
		"TestFault_H4_ATurnIsSettledOnce", "", "parked as UNREADABLE", 49},
	{"results keep the model's order", "run/decide_turn.go",
		[]change{{"call := len(d.s.Calls) + 1 + i", "call := len(d.s.Calls) + 1 + i\nif PLANTED {\ncall = len(d.s.Calls) + len(c.Calls) - i\n}"}},
		"TestResultsKeepTheModelsOrder", "read and opaque", "", 0},

	{"what is recalled marks the run", "run/apply.go",
		[]change{{"s.Marking = s.Marking.Join(recalled.Marking)", "if !PLANTED {\n s.Marking = s.Marking.Join(recalled.Marking)\n}"}},
		"TestWhatIsRecalledMarksTheRun", "read and opaque", "MARKING_LOST", 1},
	{"what is recalled is sealed to its run", "run/recall.go",
		[]change{{"whole.Amendment = r.seal(snapshot)", "whole.Amendment = r.seal(unless(PLANTED, snapshot))"}},
		"TestARecallIsSealedToItsRunAndNothingIsWrittenForNothing", "read and opaque", "RECALL_UNSEALED", 1},

	{"a child's budget is carved", "run/child.go",
		[]change{{"s.Budget.Reserved = s.Budget.Reserved.Plus(e.Carve)", "if !PLANTED {\n s.Budget.Reserved = s.Budget.Reserved.Plus(e.Carve)\n}"}},
		"TestCase_33_ACancelReachesEveryLevel", "children", "", 0},
	{"a call waits for its child", "run/decide_close.go",
		[]change{{"	case CallInFlight, CallDelegated:\n		return\n", "	case CallInFlight, CallDelegated:\n if !PLANTED || call.Phase == CallInFlight {\n return\n}\n"}},
		"TestCase_33_ACancelReachesEveryLevel", "cancel with a child", "", 0},
	{"an end waits for every child", "run/decide_close.go",
		[]change{{"open := d.childrenLive()", "open := !PLANTED && d.childrenLive()"}}, "", "reviewed call, cancelled", "", 0},
	{"live children are counted before one starts", "run/decide_child.go",
		[]change{{"case authority.RunsAtOnce <= d.s.LiveRuns():", "case !PLANTED && authority.RunsAtOnce <= d.s.LiveRuns():"}},
		"TestFault_G9_ACallThatCannotBeDelegatedIsRefusedWithACode", "no child may live", "", 0},

	{"versions", "run/journalform.go",
		[]change{{"if from != head.Version {", "if !PLANTED && from != head.Version {"}}, "", "", "does not follow record", 1},
	{"a repeat proves nothing", "run/decide_call.go",
		[]change{{"if c.Outcome == OutcomeFailed && !call.provesAbsence() {", "if !PLANTED && c.Outcome == OutcomeFailed && !call.provesAbsence() {"}}, "", "", "and it was done", 144},
	{"a lost turn may have been paid", "run/decide_run.go",
		[]change{{"Cause: Lost, Unknown: true", "Cause: Lost, Unknown: !PLANTED"}}, "", "", "models were paid", 4},
	{"the end gives back", "run/decide.go",
		[]change{{"Reserve: Amount{}.Minus(limit)", "Reserve: unless(PLANTED, Amount{}.Minus(limit))"}}, "", "", "the account holds", 1},
	{"a cancel closes its calls", "run/decide_close.go",
		[]change{{"	d.closeCalls(VoidCancelled)\n", "	if !PLANTED {\n d.closeCalls(VoidCancelled)\n}\n"}}, "", "", "long after the faults stopped", 28},
	{"only who is entitled decides", "run/decide_people.go",
		[]change{{"voices := d.voices(approval.Approvers, c.Person)\n\tif len(voices) == 0 {", "voices := d.voices(approval.Approvers, c.Person)\n\tif !PLANTED && len(voices) == 0 {"}},
		"", "", "approved what they may not", 13},
	{"a word is on what was seen", "run/decide_people.go",
		[]change{{"case approval.Digest != c.Digest:", "case !PLANTED && approval.Digest != c.Digest:"}}, "", "", "a word on another digest was accepted", 11},
	{"intent before effect", "engine/actor.go", []change{
		{"	if err := a.flush(record, d); err != nil {", "	for _, b := range begun {\n		if PLANTED {\n			a.begin(ctx, b)\n		}\n	}\n	if err := a.flush(record, d); err != nil {"},
		{"	for _, b := range begun {\n		a.begin(ctx, b)\n	}", "	for _, b := range begun {\n		if !PLANTED {\n			a.begin(ctx, b)\n		}\n	}"}},
		"", "", "before its intent was recorded", 1},
	{"leases are renewed", "engine/actor.go",
		[]change{{"if nowMs < a.renewAtMs {", "if PLANTED || nowMs < a.renewAtMs {"}}, "", "", "the lease of a healthy worker ran out", 5},
	{"outcomes outlive a conflict", "engine/actor.go",
		[]change{{"		return false, a.afterFailure(record, err)", "		if PLANTED {\n			a.reports = nil\n		}\n		return false, a.afterFailure(record, err)"}}, "", "", "long after the faults stopped", 23},
	{"a new owner recovers", "engine/actor.go",
		[]change{{"run.Recover{Epoch: a.lease.Epoch}", "run.Recover{Epoch: unless(PLANTED, a.lease.Epoch)}"}}, "", "", "long after the faults stopped", 4},
	{"who was accepted is not told of a refusal", "engine/engine.go",
		[]change{{"	case errors.Is(err, ErrNotFound):\n", "	case PLANTED && err != nil, errors.Is(err, ErrNotFound):\n"}}, "", "", "and they are told", 55},
	{"a repeat is told its first answer", "engine/engine.go",
		[]change{{"write.Receipt = in.Receipt", "write.Receipt = unless(PLANTED, in.Receipt)"}}, "", "", "a steer was accepted 2 times", 124},

	{"only news that is folded is heard", "engine/effects.go",
		[]change{{"d.write.Heard, a.heard = prepared.Heard, prepared.Heard", "d.write.Heard, a.heard = prepared.Heard, prepared.Heard\nif PLANTED {\n d.write.Heard++\n}"}},
		"", "", "long after the faults stopped", 8},
	{"whoever waits is told of an end", "engine/write.go",
		[]change{{"if s.Ended != nil && s.Started.Task.Awaited() {", "if !PLANTED && s.Ended != nil && s.Started.Task.Awaited() {"}}, "", "", "long after the faults stopped", 4},
	{"a carve is released once", "run/child.go",
		[]change{{"s.Budget.Reserved = s.Budget.Reserved.Minus(child.Carve)", "s.Budget.Reserved = s.Budget.Reserved.Minus(child.Carve)\nif PLANTED {\n s.Budget.Reserved = s.Budget.Reserved.Minus(child.Carve)\n}"}},
		"", "", "RUN_BUDGET", 4},
	{"those above a run may do it still", "run/child.go",
		[]change{{"links := append(append([]Link(nil), e.Lineage...), ", "links := append(append([]Link(nil), unless(PLANTED, e.Lineage)...), "}}, "", "", "may not any more", 2585},
	{"an intent depends on each run above", "run/decide.go",
		[]change{{"if above.Run != d.s.Started.Root {", "if !PLANTED && above.Run != d.s.Started.Root {"}}, "", "", "was cancelled", 155},
}
