package run

// Reviewed is something of a run that somebody reviews before it counts.
type Reviewed struct {
	Of       string // see ReviewOfCall and ReviewOfAnswer
	Call     int    // ordinal; 0 for an answer
	Turn     int    // that proposed the call or gave the answer
	Agent    string // name of the reviewer
	Standing Review // never ReviewNone
	Code     string // why there is no verdict; empty where there is one, or none yet
	Child    *Child // the reviewer's run; nil before it began
}

// Reviews lists what of the run is or was reviewed: its calls in their order,
// then its answers.
func (s *State) Reviews() []Reviewed {
	if len(s.Started.Reviewers) == 0 {
		return nil
	}
	var list []Reviewed
	for i := range s.Calls {
		call := &s.Calls[i]
		number := call.CallProposed.Call
		due := call.Phase == CallReady && call.Approval == ""
		if one, is := s.reviewedAs(ReviewOfCall(number), s.reviewer(call.Tool), due); is {
			one.Call, one.Turn = number, call.CallProposed.Turn
			list = append(list, one)
		}
	}
	for i := range s.Turns {
		turn := &s.Turns[i]
		due := s.Ended == nil && i == len(s.Turns)-1 && turn.Answer != nil && turn.Answer.Class == ClassText
		if one, is := s.reviewedAs(ReviewOfAnswer(turn.Number), s.reviewer(ReviewsAnswer), due); is {
			one.Turn = turn.Number
			list = append(list, one)
		}
	}
	return list
}

// reviewedAs is a review where one has begun, was declined, or is due.
func (s *State) reviewedAs(of, reviewer string, due bool) (Reviewed, bool) {
	standing, child := s.ReviewOf(of, reviewer)
	if standing == ReviewNone || standing == ReviewDue && !due {
		return Reviewed{}, false
	}
	one := Reviewed{Of: of, Agent: reviewer, Standing: standing, Child: child}
	if standing != ReviewNotSure {
		return one, true
	}
	if child != nil {
		one.Code = child.Ended.Code
		if one.Code == "" {
			one.Code = string(child.Ended.Reason)
		}
		return one, true
	}
	for _, declined := range s.Declined {
		if declined.Of == of {
			one.Code = declined.Code
		}
	}
	return one, true
}
