package perform

import (
	"context"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// What a persona may have learned, at most.
const (
	mostTraits = 20
	traitBytes = 4 << 10
)

// learned seals into a run the traits that people let its agent's persona
// learn. Where memory cannot be asked it speaks without them.
func (a *Admission) learned(ctx context.Context, kit *Kit, started *run.Started, key []byte) {
	reader := kit.Organisation.TraitReader(started.Agent.Name, started.Authority)
	if kit.Memory == nil || len(reader.Read) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	page, err := kit.Memory.List(ctx, reader, memory.Filter{Kinds: []view.Kind{view.Trait}}, "", 100)
	if err != nil {
		return
	}
	bytes := 0
	for _, item := range page.Items {
		bytes += len(item.Text)
		if bytes > traitBytes || len(started.Snapshot.Traits) == mostTraits {
			break
		}
		if instructs(item) {
			started.Snapshot.Traits = append(started.Snapshot.Traits, asking{key: key}.sealed(item))
		}
	}
	started.SnapshotDigest = started.Snapshot.Digest()
}

// instructs reports whether an item may stand among instructions: only what a
// person promoted, and nothing labelled.
func instructs(r view.Rendering) bool {
	return r.Kind == view.Trait && r.Marking.Integrity == policy.Trusted && len(r.Marking.Labels) == 0 && len(r.Withheld) == 0
}

// traits are those that the run was admitted with, as far as they still stand
// as they did then.
func (j *job) traits(ctx context.Context) ([]string, error) {
	sealed := j.state.Started.Snapshot.Traits
	if len(sealed) == 0 || j.current.Memory == nil {
		return nil, nil
	}
	ids := make([]string, len(sealed))
	for n, trait := range sealed {
		ids[n] = trait.Item
	}
	agent := j.state.Started.Agent.Name
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	now, err := j.current.Memory.Items(ctx, j.current.Organisation.TraitReader(agent, j.authority()), ids)
	if err != nil {
		revision, known := j.kit.Organisation.Agent(agent)
		if known && revision.Memory != nil && revision.Memory.OnOutage == agents.WaitOnOutage {
			return nil, errMemoryOut
		}
		return nil, nil
	}
	var texts []string
	for _, trait := range sealed {
		if item, stands := now[trait.Item]; stands && item.Etag == trait.Etag && instructs(item) {
			texts = append(texts, strings.Join(strings.Fields(item.Text), " "))
		}
	}
	return texts, nil
}
