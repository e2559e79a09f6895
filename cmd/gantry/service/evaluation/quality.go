package evaluation

import (
	"context"
	"maps"
	"sync"
	"time"

	"gantry.dev/agents/evaluate/kept"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/route"
)

// fresh is how long what was measured is taken to be so without asking: every
// turn of every run wants to know.
const fresh = time.Minute

// Quality tells runs how well models did for their agents. A result counts a
// minute after it was recorded at the latest.
type Quality struct {
	results *kept.Results
	clock   func() time.Time

	mu    sync.Mutex
	known map[[2]string]scored // by organisation and agent
}

type scored struct {
	scores route.Scores
	until  time.Time
}

var _ perform.Quality = (*Quality)(nil)

// NewQuality returns what the results say.
func NewQuality(results *kept.Results, clock func() time.Time) *Quality {
	return &Quality{results: results, clock: clock, known: map[[2]string]scored{}}
}

// Scores returns what was measured with an agent, by model of the catalogue.
func (q *Quality) Scores(ctx context.Context, organisation, agent string) (route.Scores, error) {
	key, now := [2]string{organisation, agent}, q.clock()
	q.mu.Lock()
	found, known := q.known[key]
	q.mu.Unlock()
	if known && now.Before(found.until) {
		return maps.Clone(found.scores), nil
	}
	measured, err := q.results.Quality(ctx, organisation, agent)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known[key] = scored{scores: measured, until: now.Add(fresh)}
	return maps.Clone(route.Scores(measured)), nil
}
