package prompt

import (
	"encoding/binary"
	"hash"
	"strconv"

	"gantry.dev/agents/model"
)

// absorb adds parts to a digest, each with its length before it.
func absorb(digest hash.Hash, parts ...string) {
	var size [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		digest.Write(size[:])
		digest.Write([]byte(part))
	}
}

// absorbTools begins a digest. A run that was admitted under earlier rules has
// what they would have built, under their number.
func absorbTools(digest hash.Hash, version int, tools []model.Spec) {
	absorb(digest, strconv.Itoa(version), strconv.Itoa(len(tools)))
	for _, spec := range tools {
		absorb(digest, spec.Name, spec.Description, string(spec.Schema))
	}
}

func absorbMessage(digest hash.Hash, m model.Message) {
	absorb(digest, string(m.Role), m.Text, m.CallID, strconv.FormatBool(m.Earlier), strconv.Itoa(len(m.Calls)))
	for _, call := range m.Calls {
		absorb(digest, call.ID, call.Name, string(call.Arguments))
	}
	// What is not there is not absorbed: prompts have the digest that they always had.
	if len(m.Thread) > 0 {
		absorb(digest, "thread", m.ThreadOf, string(m.Thread))
	}
	for _, media := range m.Media {
		absorb(digest, "media", media.MediaType, media.Name, string(media.Bytes))
	}
}
