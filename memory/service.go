package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
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
	// Lease is how long items stay with a relay that is not heard of; the same in
	// every process, 30 s when 0. The index must answer within two thirds of it.
	Lease time.Duration
	// Page is how much of an index and of the store a sweep compares at once; 50,000
	// when 0. A page may cost a server a walk over everything.
	Page int
	// Tending opens a memory for its operator's commands, also where it has vectors
	// of other models than the embedders'.
	Tending bool
}

// Eraser takes out what another store holds of items.
type Eraser interface {
	// EraseItems is whole when it returns without an error, and may be repeated:
	// then it counts nothing. runs are those that had recalled any of the items.
	EraseItems(ctx context.Context, items []string) (count int, runs []string, err error)
}

const (
	defaultQuota = 100_000
	defaultLease = 30 * time.Second
	defaultSwept = 50_000
)

// Service is memory over a store and indexes. It is safe for concurrent use.
type Service struct {
	config Config
	store  *store.Store
	follow *following
}

var _ Brain = (*Service)(nil)

// New opens memory. The error is ErrVectorSpace where the store has vectors of
// other models than the embedders'.
func New(ctx context.Context, config Config) (*Service, error) {
	config.Quota, config.Lease, config.Page = cmp.Or(config.Quota, defaultQuota), cmp.Or(config.Lease, defaultLease), cmp.Or(config.Page, defaultSwept)
	if config.Plan.Dense == 0 && config.Plan.Lexical == 0 {
		config.Plan = rank.DefaultPlan()
	}
	s := &Service{config: config, store: config.Store, follow: &following{store: config.Store, indexes: config.Indexes, embedders: config.Embedders, tending: config.Tending}}
	if err := s.follow.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

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
