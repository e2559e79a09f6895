//go:build unix

package wire_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// outside is where the effects of many cases happen. It keeps each case's
// entries by itself, and books whatever it is sent: only for a keyed tool does
// it look whether the key came before.
type outside struct {
	url string

	mu    sync.Mutex
	cases map[string]*books // by token
}

// books are the entries of one case.
type books struct {
	way     string
	posts   int
	thought int // how often the model of the case was asked
	entries []map[string]any
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{cases: map[string]*books{}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// open opens the books of a case, as those of an earlier one stand.
func (o *outside) open(way, from string) (token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := &books{way: way}
	if earlier := o.cases[from]; earlier != nil {
		b.posts, b.thought, b.entries = earlier.posts, earlier.thought, append(b.entries, earlier.entries...)
	}
	token = fmt.Sprintf("case %d", len(o.cases)+1)
	o.cases[token] = b
	return token
}

// count says how often a case was sent an effect, and how many there are.
func (o *outside) count(token string) (posts, entries int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cases[token].posts, len(o.cases[token].entries)
}

// ServeHTTP answers as the ledger of the sample does.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.cases[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if b == nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == modelPath {
		if b.thought++; b.thought == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	if r.Method == http.MethodPost {
		entry, cut := b.book(r)
		if cut {
			panic(http.ErrAbortHandler) // it is booked, and nobody hears of it
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(entry)
		return
	}
	found := []map[string]any{}
	for _, entry := range b.entries {
		if key := r.URL.Query().Get("key"); key == "" || key == entry["key"] {
			found = append(found, entry)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"entries": found})
}

func (b *books) book(r *http.Request) (entry map[string]any, cut bool) {
	b.posts++
	key := r.Header.Get("Idempotency-Key")
	if b.way == wayApproved || b.way == wayHanded || b.way == wayGiven {
		for _, earlier := range b.entries {
			if earlier["key"] == key {
				return earlier, false
			}
		}
	}
	entry = map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&entry)
	entry["id"], entry["key"] = fmt.Sprint("E", len(b.entries)+1), key
	entry["actor"] = map[string]any{"client": "gantry", "chain": strings.Split(r.Header.Get("X-Acting-Chain"), ",")}
	b.entries = append(b.entries, entry)
	return entry, b.way == wayFound || b.way == wayLost
}
