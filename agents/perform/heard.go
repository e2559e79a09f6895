package perform

import (
	"context"
	"slices"

	"gantry.dev/agents/prompt"
	"gantry.dev/memory/view"
)

// heard are the spaces of everything that the run got from memory, by itself
// or by memory.recall: who reads what it writes must be able to read in all of
// them. What cannot be looked at any more counts as heard in the subject's own.
func (j *job) heard(ctx context.Context) ([]view.Space, error) {
	var spaces []view.Space
	for _, recalled := range j.state.Recalled() {
		spaces = append(spaces, view.Space(recalled.Space))
	}
	var ids []string
	for i := range j.state.Calls {
		if call := &j.state.Calls[i]; prompt.GaveHits(call) {
			ids = append(ids, call.Result.ID)
		}
	}
	texts, err := j.view.Texts(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i := range j.state.Calls {
		call := &j.state.Calls[i]
		result, readable := prompt.RecallOf(call, texts)
		if prompt.GaveHits(call) && !readable {
			spaces = append(spaces, view.SpaceOf(view.SpacePerson, j.state.Started.Subject.ID))
		}
		for _, hit := range result.Hits {
			spaces = append(spaces, hit.Space)
		}
	}
	slices.Sort(spaces)
	return slices.Compact(spaces), nil
}
