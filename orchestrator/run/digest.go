package run

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// Snapshot is the immutable input of a run: ids and digests of everything that
// the model may see or ask for, never text.
type Snapshot struct {
	Agent    string            `json:"agent"` // revision digest
	Persona  string            `json:"persona,omitempty"`
	Tools    map[string]string `json:"tools,omitempty"` // definition digest by name
	Policy   string            `json:"policy"`
	Config   string            `json:"config"`
	Models   []string          `json:"models"`
	Prices   string            `json:"prices"`
	Goal     string            `json:"goal"`               // text id
	Messages []string          `json:"messages,omitempty"` // text ids of the conversation
	Compiler int               `json:"compiler"`           // version of the prompt compiler

	Memory        []Recalled `json:"memory,omitempty"`        // what the goal brought to mind, most relevant first
	Traits        []Recalled `json:"traits,omitempty"`        // what people let the agent's persona learn
	MemoryMissing []string   `json:"memoryMissing,omitempty"` // parts of memory that could not be asked; MemoryOut for all
}

// Digest is the SHA-256 over the snapshot's canonical JSON.
func (s Snapshot) Digest() string { return digestOf(s) }

func digestOf(v any) string {
	digest, err := canon.DigestOf(v)
	if err != nil {
		// The types digested here hold nothing that JSON cannot say.
		return "undigestible"
	}
	return digest
}

// usualBytes is how many most digests are over: as many need no memory of their own.
const usualBytes = 1024

// Commit is the salted commitment to a text: SHA-256 over the salt, its length
// first, and the bytes. Without the salt it tells nothing of the text.
func Commit(salt, text []byte) string {
	var usual [usualBytes]byte
	return canon.Digest(append(framed(usual[:0], salt), text...))
}

// framed appends a part with its length before it, so that no two lists of
// parts are written alike.
func framed[T ~string | ~[]byte](out []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(out, uint64(len(part))), part...)
}

// Fingerprint is a keyed digest by which a run recognises equal calls and
// equal results without keeping their text.
func Fingerprint(key []byte, parts ...[]byte) string {
	mac := hmac.New(sha256.New, key)
	var size [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// subject is what an approval is about, apart from the request itself.
type subject struct {
	Arguments string             `json:"arguments"` // commitment
	Tool      string             `json:"tool"`
	Revision  string             `json:"revision"`
	Class     policy.EffectClass `json:"class"`
	CostBound int64              `json:"costBound"`
}

func (j judged) subjectMatter() subject {
	return subject{Arguments: j.arguments.Commitment, Tool: j.tool, Revision: j.revision, Class: j.class, CostBound: j.costBound}
}

// ApprovalDigest binds an approval to one exact call: whoever approves a digest
// approves this tool definition, these argument bytes, this requester, these
// rules, once.
func ApprovalDigest(s *State, e ApprovalRequested, matter subject) string {
	return digestOf(struct {
		Organisation string            `json:"organisation"`
		Run          string            `json:"run"`
		Call         int               `json:"call"`
		Chain        []string          `json:"chain"`
		Agent        string            `json:"agent"`
		Matter       subject           `json:"matter"`
		Approvers    []policy.Approver `json:"approvers"`
		Quorum       int               `json:"quorum"`
		Policy       string            `json:"policy"`
		NotAfterMs   int64             `json:"notAfterMs"`
		Nonce        string            `json:"nonce"`
		Uses         int               `json:"uses"`
	}{s.Started.Organisation, s.ID, e.Call, s.Started.Chain, s.Started.Agent.Revision, matter,
		e.Approvers, e.Quorum, e.Policy, e.NotAfterMs, e.Nonce, 1})
}

func amendmentDigest(snapshot string, e LimitRaised) string {
	return digestOf(struct {
		Snapshot string      `json:"snapshot"`
		Raised   LimitRaised `json:"raised"`
	}{snapshot, e})
}

// Chain computes the digest of a record from the one before it.
func Chain(r Record) string {
	var usual [usualBytes]byte
	out := framed(framed(usual[:0], r.Run), r.Prev)
	out = binary.BigEndian.AppendUint64(out, 3*8)
	out = binary.BigEndian.AppendUint64(out, r.Seq)
	out = binary.BigEndian.AppendUint64(out, uint64(r.Version))
	out = binary.BigEndian.AppendUint64(out, uint64(r.AtMs))
	return canon.Digest(framed(framed(out, r.Kind), r.Body))
}
