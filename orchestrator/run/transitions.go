package run

// Transition is one cell of the table of transitions.
type Transition struct {
	From Status // "" before the run exists
	Kind EventKind
	To   Status
}

// transitions is the table by which Apply refuses what no rule explains: each
// row allows each of its kinds to lead from each From to each To.
var transitions = []struct {
	from  []Status
	kinds []EventKind
	to    []Status
}{
	{[]Status{""}, []EventKind{KindStarted}, []Status{StatusQueued}},

	{[]Status{StatusQueued}, []EventKind{KindSteerAccepted, KindSidecarStarted, KindCompacted}, []Status{StatusQueued}},
	{[]Status{StatusQueued}, []EventKind{KindTurnStarted}, []Status{StatusRunning}},
	{[]Status{StatusQueued}, []EventKind{KindLimitReached, KindModelsOut}, []Status{StatusWaiting}},
	{[]Status{StatusWaiting}, []EventKind{KindLimitRaised}, []Status{StatusQueued}},

	// Whether a run works or waits follows from what is open. First what never
	// changes it, then what leaves the run with work to do, then what adds
	// something to wait for or takes work away.
	{[]Status{StatusRunning}, unmoved, []Status{StatusRunning}},
	{[]Status{StatusWaiting}, unmoved, []Status{StatusWaiting}},
	{[]Status{StatusRunning}, []EventKind{KindCallIntended, KindChildEnded}, []Status{StatusRunning}},
	{[]Status{StatusRunning, StatusWaiting}, []EventKind{KindTurnStarted, KindCallProposed, KindApprovalVoided}, []Status{StatusRunning}},
	{[]Status{StatusRunning}, []EventKind{
		KindTurnAnswered, KindTurnFailed, KindCallJudged, KindCallUncertain, KindApprovalRequested, KindQuestionAsked, KindAccessRequested, KindLimitReached, KindChildStarted, KindReviewDeclined,
	}, []Status{StatusRunning, StatusWaiting}},
	{[]Status{StatusWaiting}, []EventKind{KindLimitReached, KindModelsOut}, []Status{StatusWaiting}},
	{[]Status{StatusRunning}, []EventKind{KindModelsOut}, []Status{StatusWaiting}},
	// A call whose server asked goes on once it is answered, or nobody may be.
	{[]Status{StatusWaiting}, []EventKind{KindQuestionAnswered, KindQuestionVoided}, []Status{StatusRunning}},
	{[]Status{StatusWaiting}, []EventKind{KindCallJudged}, []Status{StatusRunning}}, // its reviewer did not let it pass
	{[]Status{StatusRunning}, []EventKind{KindApprovalDecided, KindAccessDecided, KindAccessVoided, KindSteerAccepted, KindLimitRaised}, []Status{StatusRunning}},
	{[]Status{StatusWaiting}, []EventKind{KindApprovalDecided, KindAccessDecided, KindAccessVoided, KindSteerAccepted, KindLimitRaised}, []Status{StatusRunning, StatusWaiting}},
	{[]Status{StatusRunning, StatusWaiting}, []EventKind{KindCallEnded, KindUncertainResolved, KindVerified}, []Status{StatusRunning, StatusWaiting}},
	{[]Status{StatusWaiting}, []EventKind{KindChildEnded}, []Status{StatusRunning, StatusWaiting}},
	{[]Status{StatusRunning}, []EventKind{KindEnded}, []Status{StatusCompleted, StatusPartial, StatusFailed}},
	{[]Status{StatusWaiting}, []EventKind{KindEnded}, []Status{StatusPartial, StatusFailed}},

	{[]Status{StatusQueued, StatusRunning, StatusWaiting, StatusParked}, []EventKind{KindCancelAccepted}, []Status{StatusCancelling}},
	{[]Status{StatusCancelling}, []EventKind{
		KindTurnAnswered, KindTurnFailed, KindCallEnded, KindCallUncertain, KindUncertainResolved, KindLateOutcome,
		KindApprovalVoided, KindQuestionVoided, KindAccessVoided, KindSteerSettled, KindChildStopped, KindChildEnded, KindSidecarStarted,
	}, []Status{StatusCancelling}},
	{[]Status{StatusCancelling}, []EventKind{KindEnded}, []Status{StatusCancelled}},

	{[]Status{StatusQueued, StatusRunning, StatusWaiting, StatusCancelling}, []EventKind{KindParked}, []Status{StatusParked}},
	{[]Status{StatusParked}, []EventKind{
		KindTurnAnswered, KindTurnFailed, KindCallProposed, KindCallJudged, KindCallEnded, KindCallUncertain, KindUncertainResolved,
		KindLateOutcome, KindApprovalRequested, KindApprovalDecided, KindApprovalVoided, KindQuestionAsked, KindQuestionAnswered,
		KindQuestionVoided, KindAccessRequested, KindAccessDecided, KindAccessVoided, KindSteerAccepted, KindSteerSettled, KindChildStopped, KindChildEnded, KindSidecarStarted,
	}, []Status{StatusParked}},
	{[]Status{StatusParked}, []EventKind{KindResumed}, []Status{StatusQueued, StatusRunning, StatusWaiting, StatusCancelling}},

	{[]Status{StatusCompleted}, late, []Status{StatusCompleted}},
	{[]Status{StatusPartial}, late, []Status{StatusPartial}},
	{[]Status{StatusFailed}, late, []Status{StatusFailed}},
	{[]Status{StatusCancelled}, late, []Status{StatusCancelled}},
}

// unmoved are the kinds that only say something: what is open stays open.
var unmoved = []EventKind{KindQuestionAnswered, KindQuestionVoided, KindLateOutcome, KindSteerSettled, KindChildStopped, KindSidecarStarted, KindCompacted}

// late is all that may follow the end.
var late = []EventKind{KindLateOutcome, KindUncertainResolved}

var table = func() map[Transition]bool {
	cells := map[Transition]bool{}
	for _, row := range transitions {
		for _, from := range row.from {
			for _, kind := range row.kinds {
				for _, to := range row.to {
					cells[Transition{from, kind, to}] = true
				}
			}
		}
	}
	return cells
}()

// Transitions returns the cells of the table, in no order.
func Transitions() []Transition {
	cells := make([]Transition, 0, len(table))
	for cell := range table {
		cells = append(cells, cell)
	}
	return cells
}

func allowed(from Status, kind EventKind, to Status) bool { return table[Transition{from, kind, to}] }
