package run

// The kinds of the events, and the texts that each bears.

// Kind returns KindStarted.
func (Started) Kind() EventKind { return KindStarted }

// Texts returns the texts that the event bears.
func (e Started) Texts() []Text {
	texts := make([]Text, 0, 2+len(e.History))
	for _, message := range e.History {
		texts = append(texts, message.Text)
	}
	texts = append(texts, e.Goal)
	if e.Task != nil {
		texts = append(texts, optional(e.Task.Result)...)
	}
	return texts
}

// Kind returns KindTurnStarted.
func (TurnStarted) Kind() EventKind { return KindTurnStarted }

// Texts returns none.
func (TurnStarted) Texts() []Text { return nil }

// Kind returns KindTurnAnswered.
func (TurnAnswered) Kind() EventKind { return KindTurnAnswered }

// Texts returns the texts that the event bears.
func (e TurnAnswered) Texts() []Text { return optional(e.Text, e.Reasoning, e.Thread) }

// Kind returns KindTurnFailed.
func (TurnFailed) Kind() EventKind { return KindTurnFailed }

// Texts returns none.
func (TurnFailed) Texts() []Text { return nil }

// Kind returns KindCallProposed.
func (CallProposed) Kind() EventKind { return KindCallProposed }

// Texts returns the texts that the event bears.
func (e CallProposed) Texts() []Text { return []Text{e.Arguments} }

// Kind returns KindCallJudged.
func (CallJudged) Kind() EventKind { return KindCallJudged }

// Texts returns none.
func (CallJudged) Texts() []Text { return nil }

// Kind returns KindApprovalRequested.
func (ApprovalRequested) Kind() EventKind { return KindApprovalRequested }

// Texts returns none.
func (ApprovalRequested) Texts() []Text { return nil }

// Kind returns KindApprovalDecided.
func (ApprovalDecided) Kind() EventKind { return KindApprovalDecided }

// Texts returns the texts that the event bears.
func (e ApprovalDecided) Texts() []Text { return optional(e.Reason) }

// Kind returns KindApprovalVoided.
func (ApprovalVoided) Kind() EventKind { return KindApprovalVoided }

// Texts returns none.
func (ApprovalVoided) Texts() []Text { return nil }

// Kind returns KindQuestionAsked.
func (QuestionAsked) Kind() EventKind { return KindQuestionAsked }

// Texts returns the texts that the event bears.
func (e QuestionAsked) Texts() []Text {
	if e.Ask == nil {
		return nil
	}
	return optional(e.Ask.Form, e.Ask.State)
}

// Kind returns KindQuestionAnswered.
func (QuestionAnswered) Kind() EventKind { return KindQuestionAnswered }

// Texts returns the texts that the event bears.
func (e QuestionAnswered) Texts() []Text { return []Text{e.Answer} }

// Kind returns KindQuestionVoided.
func (QuestionVoided) Kind() EventKind { return KindQuestionVoided }

// Texts returns none.
func (QuestionVoided) Texts() []Text { return nil }

// Kind returns KindCallIntended.
func (CallIntended) Kind() EventKind { return KindCallIntended }

// Texts returns none.
func (CallIntended) Texts() []Text { return nil }

// Kind returns KindCallEnded.
func (CallEnded) Kind() EventKind { return KindCallEnded }

// Texts returns the texts that the event bears.
func (e CallEnded) Texts() []Text { return append(optional(e.Result), textsOf(e.Media)...) }

// Kind returns KindCallUncertain.
func (CallUncertain) Kind() EventKind { return KindCallUncertain }

// Texts returns none.
func (CallUncertain) Texts() []Text { return nil }

// Kind returns KindUncertainResolved.
func (UncertainResolved) Kind() EventKind { return KindUncertainResolved }

// Texts returns the texts that the event bears.
func (e UncertainResolved) Texts() []Text { return []Text{e.Evidence} }

// Kind returns KindLateOutcome.
func (LateOutcome) Kind() EventKind { return KindLateOutcome }

// Texts returns the texts that the event bears.
func (e LateOutcome) Texts() []Text { return optional(e.Result) }

// Kind returns KindSteerAccepted.
func (SteerAccepted) Kind() EventKind { return KindSteerAccepted }

// Texts returns the texts that the event bears.
func (e SteerAccepted) Texts() []Text { return []Text{e.Text} }

// Kind returns KindSteerSettled.
func (SteerSettled) Kind() EventKind { return KindSteerSettled }

// Texts returns none.
func (SteerSettled) Texts() []Text { return nil }

// Kind returns KindCancelAccepted.
func (CancelAccepted) Kind() EventKind { return KindCancelAccepted }

// Texts returns the texts that the event bears.
func (e CancelAccepted) Texts() []Text { return optional(e.Reason) }

// Kind returns KindLimitReached.
func (LimitReached) Kind() EventKind { return KindLimitReached }

// Texts returns none.
func (LimitReached) Texts() []Text { return nil }

// Kind returns KindLimitRaised.
func (LimitRaised) Kind() EventKind { return KindLimitRaised }

// Texts returns none.
func (LimitRaised) Texts() []Text { return nil }

// Kind returns KindVerified.
func (Verified) Kind() EventKind { return KindVerified }

// Texts returns the details of the checks.
func (e Verified) Texts() []Text {
	var texts []Text
	for _, check := range e.Checks {
		texts = append(texts, optional(check.Detail)...)
	}
	return texts
}

// Kind returns KindEnded.
func (Ended) Kind() EventKind { return KindEnded }

// Texts returns the texts that the event bears.
func (e Ended) Texts() []Text { return optional(e.Result) }

// Kind returns KindParked.
func (Parked) Kind() EventKind { return KindParked }

// Texts returns none.
func (Parked) Texts() []Text { return nil }

// Kind returns KindResumed.
func (Resumed) Kind() EventKind { return KindResumed }

// Texts returns none.
func (Resumed) Texts() []Text { return nil }

func optional(texts ...*Text) []Text {
	var present []Text
	for _, text := range texts {
		if text != nil {
			present = append(present, *text)
		}
	}
	return present
}
