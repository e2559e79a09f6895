package view

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"gantry.dev/orchestrator/policy"
)

// SetID names a set of labels by its content: equal sets have the same id
// everywhere, and no id tells how many labels it stands for.
func SetID(labels policy.Labels) string {
	sum := sha256.New()
	for _, label := range labels {
		// The length before each label keeps two sets apart whatever is in the names.
		sum.Write(binary.AppendUvarint(nil, uint64(len(label))))
		sum.Write([]byte(label))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Allowed returns the ids of the sets, by id, that a clearance covers, sorted.
func Allowed(sets map[string]policy.Labels, clearance policy.Labels) []string {
	var ids []string
	for id, labels := range sets {
		if labels.Within(clearance) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Reads reports whether the reader may read in the space.
func (r *Reader) Reads(space Space) bool {
	_, found := slices.BinarySearch(r.Read, space)
	return found
}

// Writes reports whether the reader may write in the space.
func (r *Reader) Writes(space Space) bool {
	_, found := slices.BinarySearch(r.Write, space)
	return found
}

// Sees reports whether an item exists for the reader: it may read in its space,
// and at least one segment. It says nothing of expiry; see Moment.Keeps.
func (r *Reader) Sees(item *Item) bool {
	if item.Organisation != r.Organisation || !r.Reads(item.Space) {
		return false
	}
	return slices.ContainsFunc(item.Segments, func(s Segment) bool { return s.Labels.Within(r.Clearance) })
}

// SeesWhole reports whether nothing of an item that the reader sees is hidden
// from it.
func (r *Reader) SeesWhole(item *Item) bool {
	return r.Sees(item) && item.Labels().Within(r.Clearance)
}
