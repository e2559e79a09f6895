package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Config says what memory works with.
type Config struct {
	Store   *store.Store
	Indexes index.Indexes
	// Embedders make the vectors, each in a vector space of its own; a text goes
	// to all of them that may take its labels. None: words alone are compared.
	Embedders []embed.Embedder
	Rules     func(ctx context.Context, organisation string) (Rules, error)
	Plan      rank.Plan // the zero value: rank.DefaultPlan
	Quota     int       // items that one principal may have; 0: 100,000
	// Erasers take out what else holds copies of items, by the name under which a
	// receipt counts it, for example "run texts".
	Erasers map[string]Eraser
	// SeesRun reports whether a reader may know of a run; nil: of none.
	SeesRun func(ctx context.Context, reader view.Reader, run string) (bool, error)
}

// Eraser takes out what another store holds of items.
type Eraser interface {
	// EraseItems is whole when it returns without an error, and may be repeated:
	// then it counts nothing. runs are those that had recalled any of the items.
	EraseItems(ctx context.Context, items []string) (count int, runs []string, err error)
}

const defaultQuota = 100_000

// ErrVectorSpace means that what is remembered has vectors of another model.
var ErrVectorSpace = errors.New("the memory has vectors of another model")

// Service is memory over a store and indexes. It is safe for concurrent use.
type Service struct {
	config Config
	store  *store.Store
	follow *following
}

var _ Brain = (*Service)(nil)

// part is one vector space with its index and what makes its vectors; a space
// without vectors has no embedder.
type part struct {
	space    index.VectorSpace
	index    index.Index
	embedder embed.Embedder
}

func (p part) may(labels policy.Labels) bool { return p.embedder != nil && p.embedder.May(labels) }

// New opens memory. The error is ErrVectorSpace where the store has vectors of
// other models than the embedders'.
func New(ctx context.Context, config Config) (*Service, error) {
	config.Quota = cmp.Or(config.Quota, defaultQuota)
	if config.Plan.Dense == 0 && config.Plan.Lexical == 0 {
		config.Plan = rank.DefaultPlan()
	}
	s := &Service{config: config, store: config.Store}
	parts, err := s.parts(ctx)
	if err != nil {
		return nil, err
	}
	s.follow = &following{store: config.Store, parts: parts}
	return s, nil
}

// words is the vector space of a memory without vectors.
const words = "words"

func (s *Service) parts(ctx context.Context) ([]part, error) {
	spaces, err := s.vectorSpaces(ctx)
	if err != nil {
		return nil, err
	}
	parts := make([]part, len(spaces))
	for n, space := range spaces {
		parts[n].space = space
		if parts[n].index, err = s.config.Indexes.Open(ctx, space); err != nil {
			return nil, err
		}
		for _, embedder := range s.config.Embedders {
			if embedder.Model() == space.Model && embedder.Dim() == space.Dim {
				parts[n].embedder = embedder
			}
		}
	}
	return parts, nil
}

// vectorSpaces returns the active vector spaces, in the order of the embedders.
// They are made where there are none yet.
func (s *Service) vectorSpaces(ctx context.Context) ([]index.VectorSpace, error) {
	wanted := []index.VectorSpace{{ID: words, Model: words, Dim: 1}}
	for n, embedder := range s.config.Embedders {
		wanted = append(wanted[:n], index.VectorSpace{ID: spaceID(embedder.Model()), Model: embedder.Model(), Dim: embedder.Dim()})
	}
	active, err := s.store.VectorSpaces(ctx, store.Active)
	if err != nil {
		return nil, err
	}
	if len(active) == 0 {
		if err := s.activate(ctx, wanted); err != nil {
			return nil, err
		}
		if active, err = s.store.VectorSpaces(ctx, store.Active); err != nil {
			return nil, err
		}
	}
	var ordered []index.VectorSpace
	for _, want := range wanted {
		at := slices.IndexFunc(active, func(have index.VectorSpace) bool { return have.Model == want.Model && have.Dim == want.Dim })
		if at < 0 {
			return nil, mixed(active, wanted)
		}
		ordered = append(ordered, active[at])
	}
	if len(ordered) != len(active) {
		return nil, mixed(active, wanted)
	}
	return ordered, nil
}

func (s *Service) activate(ctx context.Context, spaces []index.VectorSpace) error {
	return s.store.Write(ctx, 0, func(ctx context.Context, tx *store.Tx) error {
		for _, space := range spaces {
			if err := tx.KeepVectorSpace(ctx, space, store.Active); err != nil {
				return err
			}
		}
		return nil
	})
}

func mixed(active, wanted []index.VectorSpace) error {
	name := func(spaces []index.VectorSpace) string {
		var names []string
		for _, space := range spaces {
			names = append(names, fmt.Sprintf("%s with %d dimensions", space.Model, space.Dim))
		}
		return strings.Join(names, " and ")
	}
	return fmt.Errorf("%w: it has %s, and is to be asked with %s; embed it again before", ErrVectorSpace, name(active), name(wanted))
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// spaceID names the first vector space of a model; later ones count on.
func spaceID(model string) string { return notInNames.ReplaceAllString(model, "-") + "-1" }

// asking is one reader's question to the store: what it may see, and when.
type asking struct {
	view.Reader
	moment view.Moment
	scope  store.Scope
	key    []byte // of the organisation, for etags
}

// ask readies a question. Whoever reads must hold s.follow for reading from
// before until the index has answered, where one is asked: the label sets are
// then those of everything that the index has.
func (s *Service) ask(ctx context.Context, reader view.Reader) (*asking, error) {
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	sets, err := s.store.Sets(ctx, reader.Organisation)
	if err != nil {
		return nil, err
	}
	return &asking{
		Reader: reader,
		moment: view.Moment{NowMs: nowMs},
		scope: store.Scope{Organisation: reader.Organisation, Spaces: reader.Read,
			Sets: view.Allowed(sets, reader.Clearance), NowMs: nowMs},
		key: s.etagKey(reader.Organisation),
	}, nil
}

func (s *Service) etagKey(organisation string) []byte  { return s.store.Key(organisation, "etag") }
func (s *Service) termsKey(organisation string) []byte { return s.store.Key(organisation, "terms") }

// sees reports whether an item is there for the reader now. A nil item is not.
func (a *asking) sees(item *view.Item) bool {
	return item != nil && a.Sees(item) && a.moment.Keeps(item)
}

// within returns the spaces of a list that the reader may read; all of them for
// an empty list.
func (a *asking) within(spaces []view.Space) []view.Space {
	if len(spaces) == 0 {
		return a.Read
	}
	return slices.DeleteFunc(slices.Clone(a.Read), func(space view.Space) bool { return !slices.Contains(spaces, space) })
}

func refuse(code, detail string) error { return &Refusal{Code: code, Detail: detail} }

// absent is what a reader is told of an item that is not there, or not for it.
func absent() error { return RefusalOf(view.ErrAbsent) }
