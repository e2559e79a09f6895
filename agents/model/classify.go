package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Class says what an answer is. Every answer has exactly one.
type Class string

// The classes.
const (
	ClassText      Class = "TEXT"      // something to read
	ClassQuestion  Class = "QUESTION"  // one call, and it asks a person
	ClassCalls     Class = "CALLS"     // one call or more; each is judged by itself
	ClassRefusal   Class = "REFUSAL"   // the model declines
	ClassEmpty     Class = "EMPTY"     // nothing, only white space, or only reasoning
	ClassCut       Class = "CUT"       // the token limit ended it, so nobody knows what it would have said
	ClassMalformed Class = "MALFORMED" // it contradicts itself
)

// askName is the tool by which a model asks a person.
const askName = "ask.person"

// Classify returns the class of an answer, by fixed rules in this order: an
// unknown finish or broken text is MALFORMED; a refusal is a refusal whatever
// else it says; a cut is a cut, also behind a call that looks whole, since what
// would have stood beside it is missing; calls count if they have names; then
// the promised call that is not there, and blank text. Arguments that are no
// JSON do not make an answer malformed: that call gets an error for a result,
// and its siblings run.
func Classify(answer Answer) Class {
	switch {
	case !known(answer.Finish) || !utf8.ValidString(answer.Text):
		return ClassMalformed
	case answer.Finish == FinishRefusal:
		return ClassRefusal
	case answer.Finish == FinishLength:
		return ClassCut
	case len(answer.Calls) > 0:
		return classOfCalls(answer.Calls)
	case answer.Finish == FinishCalls:
		return ClassMalformed
	case blank(answer.Text):
		return ClassEmpty
	}
	return ClassText
}

func classOfCalls(calls []Proposed) Class {
	for _, call := range calls {
		if call.Name == "" || !utf8.ValidString(call.Name) {
			return ClassMalformed
		}
	}
	if len(calls) == 1 && calls[0].Name == askName {
		return ClassQuestion
	}
	return ClassCalls
}

func known(finish Finish) bool {
	switch finish {
	case FinishStop, FinishCalls, FinishLength, FinishRefusal:
		return true
	}
	return false
}

// blank reports whether there is nothing to see: white space, control and
// format characters are nothing.
func blank(text string) bool {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }) == ""
}
