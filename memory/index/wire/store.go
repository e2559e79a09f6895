package wire

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// store is what the double holds.
type store struct {
	mu          sync.RWMutex
	collections map[string]*collection
	aliases     map[string]string
}

func newStore() *store {
	return &store{collections: map[string]*collection{}, aliases: map[string]string{}}
}

// collection is a collection, and what a second replica has of it.
type collection struct {
	made   *qdrant.CreateCollection
	fields map[string]*qdrant.CreateFieldIndexCollection
	points map[string]*qdrant.PointStruct
	behind map[string]*qdrant.PointStruct // what the second replica has; nil: the same
}

// of returns a collection by its name or an alias.
func (s *store) of(name string) (*collection, error) {
	if to, ok := s.aliases[name]; ok {
		name = to
	}
	found, ok := s.collections[name]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "Not found: Collection `%s` doesn't exist!", name)
	}
	return found, nil
}

// lag lets the second replica of every collection stay as it is now.
func (s *store) lag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.behind = maps.Clone(c.points)
	}
}

func (s *store) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.behind = nil
	}
}

// read is what a read sees, by id. One that asks a single replica meets the one
// that is behind; one that asks all gets what is on all of them.
func (c *collection) read(consistency *qdrant.ReadConsistency) []*qdrant.PointStruct {
	seen := c.points
	if c.behind != nil {
		seen = c.behind
		if consistency != nil && consistency.GetType() == qdrant.ReadConsistencyType_All {
			seen = maps.Clone(c.behind)
			maps.DeleteFunc(seen, func(id string, _ *qdrant.PointStruct) bool { return c.points[id] == nil })
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b *qdrant.PointStruct) int {
		return strings.Compare(a.GetId().GetUuid(), b.GetId().GetUuid())
	})
}

// allows says whether strict mode lets a filter through: what is filtered by has
// an index that can tell, and no list is too long.
func (c *collection) allows(filter *qdrant.Filter, writes bool) error {
	strict := c.made.GetStrictModeConfig()
	if !strict.GetEnabled() {
		return nil
	}
	unindexed := strict.UnindexedFilteringRetrieve
	if writes {
		unindexed = strict.UnindexedFilteringUpdate
	}
	conditions := slices.Concat(filter.GetMust(), filter.GetMustNot())
	if most := strict.FilterMaxConditions; most != nil && uint64(len(conditions)) > *most {
		return status.Error(codes.InvalidArgument, "Forbidden: Filter condition limit reached")
	}
	for _, condition := range conditions {
		field := condition.GetField()
		if field == nil {
			continue
		}
		if size := strict.ConditionMaxSize; size != nil && uint64(len(field.GetMatch().GetKeywords().GetStrings())) > *size {
			return status.Error(codes.InvalidArgument, "Forbidden: condition size limit reached")
		}
		if unindexed != nil && !*unindexed && !c.tells(field) {
			return status.Errorf(codes.InvalidArgument, "Bad request: Index required but not found for %q", field.GetKey())
		}
	}
	return nil
}

func (c *collection) tells(field *qdrant.FieldCondition) bool {
	params := c.fields[field.GetKey()].GetFieldIndexParams()
	number := params.GetIntegerIndexParams()
	if field.GetRange() != nil {
		return number.GetRange()
	}
	if _, integer := field.GetMatch().GetMatchValue().(*qdrant.Match_Integer); integer {
		return number.GetLookup()
	}
	return params.GetKeywordIndexParams() != nil
}
