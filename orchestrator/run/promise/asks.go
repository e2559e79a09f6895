package promise

import "gantry.dev/orchestrator/run"

// asks are what a journal says of calls whose servers ask people.
type asks struct {
	open   map[int]string // question by call
	flying map[int]int    // attempt in flight by call
	times  map[int]int    // by call
}

// note holds an event against what came before: an attempt asks at most once,
// and the call goes no further until that is settled.
func (a *asks) note(event run.Event) *Broken {
	switch e := event.(type) {
	case run.CallIntended:
		if question := a.open[e.Call]; question != "" {
			return broken(AskOpen, "call %d begins while question %s is open", e.Call, question)
		}
		a.flying[e.Call] = e.Intent
	case run.CallUncertain:
		delete(a.flying, e.Call)
	case run.CallEnded:
		if question := a.open[e.Call]; question != "" {
			return broken(AskOpen, "call %d ends while question %s is open", e.Call, question)
		}
		delete(a.flying, e.Call)
	case run.QuestionAsked:
		return a.ask(e)
	case run.QuestionAnswered:
		a.settle(e.Question)
	case run.QuestionVoided:
		a.settle(e.Question)
	}
	return nil
}

func (a *asks) ask(e run.QuestionAsked) *Broken {
	if e.Ask == nil {
		return nil
	}
	if e.Ask.Intent < 1 || a.flying[e.Call] != e.Ask.Intent {
		return broken(AskOpen, "attempt %d of call %d asks and is not in flight", e.Ask.Intent, e.Call)
	}
	delete(a.flying, e.Call)
	a.open[e.Call] = e.Question
	if a.times[e.Call]++; a.times[e.Call] > run.MaxAsks {
		return broken(AskedTooOften, "question %s is one too many of call %d", e.Question, e.Call)
	}
	return nil
}

func (a *asks) settle(question string) {
	for call, open := range a.open {
		if open == question {
			delete(a.open, call)
		}
	}
}
