// Package showcase shows the memory of the sample organisation: the same
// question asked by five people, and a fact forgotten.
package showcase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Question is what the five are asked.
const Question = "What is decided about next year's raise, and for whom?"

// Askers are the five principals who ask, in this order.
var Askers = [5]string{"ruth.abelson", "tomas.rehak", "liam.byrne", "jonas.petersen", "pieter.vanacker"}

// roles say who the five are in the sample organisation, in the same order.
var roles = [5]string{"head of HR", "controller", "sales", "accountant", "buyer"}

// House is a running installation with the sample organisation.
type House struct {
	As     func(principal string) (*client.Client, error) // speaks to it as somebody
	Folder string                                         // where its files lie
	Log    func() string                                  // everything that it logged so far
}

// Reading is one item as one of the five got it.
type Reading struct {
	Citation string                `json:"citation"`
	Item     string                `json:"item"` // global id
	Text     string                `json:"text"`
	Withheld []client.WithheldPart `json:"withheld,omitempty"`
}

// Answer is what one of the five got, best first.
type Answer struct {
	Principal string    `json:"principal"`
	Readings  []Reading `json:"readings"`
}

// Result is what was shown.
type Result struct {
	Question string               `json:"question"`
	Answers  []Answer             `json:"answers"`
	After    []Answer             `json:"after"` // the same question once the fact was forgotten
	Receipt  client.ForgetReceipt `json:"receipt"`
	Checks   []string             `json:"checks"` // what was looked at and found as it must be
}

// show is the demonstration under way.
type show struct {
	House
	ask.Witness
	people map[string]*client.Client
	runs   map[string]string // global id of the last run for somebody
}

// Run remembers the sample's memory, asks, forgets, and looks whether every
// path has forgotten. The error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer, question string) (Result, error) {
	s := &show{House: house, Witness: ask.Witness{Out: out}, people: map[string]*client.Client{}, runs: map[string]string{}}
	result := Result{Question: question}
	for _, id := range Askers {
		c, err := s.As(id)
		if err != nil {
			return result, err
		}
		s.people[id] = c
	}
	fact, err := s.remember(ctx)
	if err != nil {
		return result, err
	}
	if result.Answers, err = s.ask(ctx, question); err != nil {
		return result, err
	}
	if err := errors.Join(s.tell(result), s.differ(result.Answers)); err != nil {
		return result, err
	}
	if err := s.through(ctx, question); err != nil {
		return result, err
	}
	if result.Receipt, err = s.forget(ctx, fact); err != nil {
		return result, err
	}
	if result.After, err = s.ask(ctx, question); err != nil {
		return result, err
	}
	err = errors.Join(s.gone(ctx, fact, question, result.After), s.nowhere())
	result.Checks = s.Checked
	if err != nil {
		return result, err
	}
	return result, s.Conclude()
}

func (s *show) ask(ctx context.Context, question string) ([]Answer, error) {
	var answers []Answer
	for _, id := range Askers {
		found, err := s.people[id].Recall(ctx, client.MemoryQuestion{Query: question, Most: shown})
		if err != nil {
			return nil, fmt.Errorf("as %s: %w", id, err)
		}
		answer := Answer{Principal: id}
		for _, hit := range found.Hits {
			citation := hit.Citation
			if hit.Item.Source.Ref == "" {
				citation = hit.Item.Subject + "; " + citation
			}
			answer.Readings = append(answer.Readings, Reading{Citation: citation, Item: hit.Item.ID, Text: hit.Item.Display, Withheld: hit.Item.Withheld})
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// shown is how many hits each of the five gets.
const shown = 6

// differ checks that each of the five got another answer.
func (s *show) differ(answers []Answer) error {
	for i, a := range answers {
		for _, b := range answers[i+1:] {
			if slices.EqualFunc(a.Readings, b.Readings, func(x, y Reading) bool { return x.Item == y.Item && x.Text == y.Text }) {
				return fmt.Errorf("not so: %s and %s get different answers", a.Principal, b.Principal)
			}
		}
	}
	return s.Check(len(answers[0].Readings) > 0, "five people, five answers")
}
