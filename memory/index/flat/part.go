package flat

import (
	"slices"
	"sort"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
)

// blockRows bounds the rows of a block: one block of 384 dimensions is 1.5 MB, so
// that growing copies little.
const blockRows = 1024

// part holds views that the same readers see: those of one space and one set,
// with the same omissions. All of them have a vector, or none has.
type part struct {
	dim      int // 0: without vectors
	omit     []string
	blocks   [][]float32 // blockRows × dim each, one vector after the other
	rows     []row
	postings map[uint32][]posting // by term, by row upwards
}

// row is a view.
type row struct {
	entry     *entry
	place     int // in entry.places
	expiresMs int64
	terms     rank.Terms
}

// posting says that a row holds a term.
type posting struct {
	row    int32
	weight float32
}

// add appends a view and returns its row.
func (p *part) add(added row, vector []float32) int {
	n := len(p.rows)
	p.rows = append(p.rows, added)
	if p.dim > 0 {
		if n%blockRows == 0 {
			p.blocks = append(p.blocks, nil)
		}
		last := &p.blocks[len(p.blocks)-1]
		*last = append(*last, vector...)
	}
	for _, term := range added.terms {
		p.postings[term.Hash] = append(p.postings[term.Hash], posting{int32(n), term.Weight})
	}
	return n
}

// remove takes a view out and puts the last one in its place, so that nothing of
// what was removed stays in memory that is still in use.
func (p *part) remove(n int) {
	last := len(p.rows) - 1
	p.unpost(n)
	if n != last {
		p.unpost(last)
		moved := p.rows[last]
		p.rows[n] = moved
		moved.entry.places[moved.place].row = n
		copy(p.vector(n), p.vector(last))
		for _, term := range moved.terms {
			list := p.postings[term.Hash]
			p.postings[term.Hash] = slices.Insert(list, search(list, n), posting{int32(n), term.Weight})
		}
	}
	clear(p.vector(last))
	p.rows[last] = row{}
	p.rows = p.rows[:last]
	if p.dim == 0 {
		return
	}
	if end := len(p.blocks) - 1; last%blockRows == 0 {
		p.blocks[end] = nil
		p.blocks = p.blocks[:end]
	} else {
		p.blocks[end] = p.blocks[end][:last%blockRows*p.dim]
	}
}

// unpost takes a row out of the lists of its terms.
func (p *part) unpost(n int) {
	for _, term := range p.rows[n].terms {
		list := p.postings[term.Hash]
		at := search(list, n)
		if list = slices.Delete(list, at, at+1); len(list) == 0 {
			delete(p.postings, term.Hash)
		} else {
			p.postings[term.Hash] = list
		}
	}
}

// search returns where a row stands in a list, or would stand.
func search(list []posting, n int) int {
	return sort.Search(len(list), func(i int) bool { return int(list[i].row) >= n })
}

// vector returns the vector of a row; empty where the part has none.
func (p *part) vector(n int) []float32 {
	if p.dim == 0 {
		return nil
	}
	begin := n % blockRows * p.dim
	return p.blocks[n/blockRows][begin : begin+p.dim]
}

func (p *part) ref(n int) index.Ref {
	r := &p.rows[n]
	return index.Ref{Item: r.entry.item, Version: r.entry.version, Set: r.entry.places[r.place].set}
}

// expired reports whether a row is no hit any more.
func (r *row) expired(nowMs int64) bool { return r.expiresMs != 0 && r.expiresMs <= nowMs }
