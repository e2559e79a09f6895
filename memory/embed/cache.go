package embed

import (
	"container/list"
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"gantry.dev/orchestrator/policy"
)

// The most label sets, of all organisations together, whose vectors are kept.
const mostScopes = 256

// Cache keeps the vectors of texts, for a model that takes long. What it keeps
// is kept apart by organisation and label set, so that nobody tells by the time
// an answer takes whether a text is somewhere that they may not see. It holds
// digests of texts, and none of the texts. It may be used from many goroutines.
type Cache struct {
	embedder Embedder
	size     int

	mu      sync.Mutex
	scopes  map[scope]*recent
	cleared uint64 // how often something was dropped on purpose
}

type scope struct{ organisation, set string }

// recent is what was used last in one scope. The model is that of the embedder.
type recent struct {
	order   *list.List // of kept, the latest first
	entries map[[sha256.Size]byte]*list.Element
}

type kept struct {
	digest [sha256.Size]byte
	vector []float32
}

// NewCache keeps up to size vectors for each label set of an organisation.
func NewCache(embedder Embedder, size int) *Cache {
	return &Cache{embedder: embedder, size: max(size, 1), scopes: map[scope]*recent{}}
}

// Scoped is an Embedder that keeps vectors of each label set apart.
type Scoped interface {
	Embedder
	// For returns the embedder for texts of one label set of an organisation; set
	// is the id of the set.
	For(organisation, set string) Embedder
}

var _ Scoped = (*Cache)(nil)

// Model is that of the embedder.
func (c *Cache) Model() string { return c.embedder.Model() }

// Dim is that of the embedder.
func (c *Cache) Dim() int { return c.embedder.Dim() }

// May is that of the embedder.
func (c *Cache) May(labels policy.Labels) bool { return c.embedder.May(labels) }

// Embed keeps nothing: it does not know for whom.
func (c *Cache) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return c.embedder.Embed(ctx, texts)
}

// For returns the embedder that keeps vectors for one label set.
func (c *Cache) For(organisation, set string) Embedder {
	return cached{Cache: c, scope: scope{organisation, set}}
}

// Clear drops everything of an organisation and says how many vectors that was.
// What is forgotten is not to be kept as a vector either.
func (c *Cache) Clear(organisation string) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, recent := range c.scopes {
		if of.organisation == organisation {
			count += recent.order.Len()
			delete(c.scopes, of)
		}
	}
	c.cleared++ // and what is being made now is not kept
	return count
}

type cached struct {
	*Cache
	scope scope
}

// Embed asks the embedder for what is not kept, each text once.
func (c cached) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	digests := make([][sha256.Size]byte, len(texts))
	cleared := c.state()
	places := map[[sha256.Size]byte][]int{}
	var missing []string
	for i, text := range texts {
		digests[i] = sha256.Sum256([]byte(text))
		if vectors[i] = c.get(digests[i]); vectors[i] != nil {
			continue
		}
		if places[digests[i]] == nil {
			missing = append(missing, text)
		}
		places[digests[i]] = append(places[digests[i]], i)
	}
	if len(missing) == 0 {
		return vectors, ctx.Err()
	}
	made, err := c.embedder.Embed(ctx, missing)
	if err != nil {
		return nil, err
	}
	for m, text := range missing {
		digest := sha256.Sum256([]byte(text))
		c.put(digest, made[m], cleared)
		for _, place := range places[digest] {
			vectors[place] = slices.Clone(made[m])
		}
	}
	return vectors, nil
}

func (c cached) state() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cleared
}

func (c cached) get(digest [sha256.Size]byte) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := c.scopes[c.scope]
	if recent == nil || recent.entries[digest] == nil {
		return nil
	}
	element := recent.entries[digest]
	recent.order.MoveToFront(element)
	return slices.Clone(element.Value.(kept).vector)
}

// put keeps a vector. Only what the same label set used may be dropped for it;
// to drop another's would tell of it.
func (c cached) put(digest [sha256.Size]byte, vector []float32, cleared uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleared != cleared {
		return
	}
	of := c.scopes[c.scope]
	if of == nil {
		if len(c.scopes) >= mostScopes {
			return
		}
		of = &recent{order: list.New(), entries: map[[sha256.Size]byte]*list.Element{}}
		c.scopes[c.scope] = of
	}
	if of.entries[digest] != nil {
		return
	}
	of.entries[digest] = of.order.PushFront(kept{digest, slices.Clone(vector)})
	if of.order.Len() > c.size {
		last := of.order.Remove(of.order.Back()).(kept)
		delete(of.entries, last.digest)
	}
}
