package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gantry.dev/orchestrator/canon"
)

// Offer is a tool as its server gives it. Nothing in it is trusted: it is what
// a person looked at, and its pin says whether it is still that.
type Offer struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Hints       *Hints          `json:"hints,omitempty"`
}

// Hints are a server's own words on what its tool does. They are shown to the
// tool's owner and decide nothing.
type Hints struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    bool   `json:"readOnly"`
	Destructive *bool  `json:"destructive,omitempty"` // absent: as good as true
	Idempotent  bool   `json:"idempotent"`
	OpenWorld   *bool  `json:"openWorld,omitempty"` // absent: as good as true
}

// Words says the hints in words, for the tool's owner.
func (h *Hints) Words() string {
	if h == nil {
		return "says nothing of its effects"
	}
	says := func(is bool, yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	reach := says(h.OpenWorld == nil || *h.OpenWorld, "may reach anything", "claims to reach nothing outside")
	if h.ReadOnly { // the other hints are of what writes
		return "claims to read only, " + reach
	}
	return strings.Join([]string{
		"may write",
		says(h.Destructive == nil || *h.Destructive, "may destroy", "claims to add only"),
		says(h.Idempotent, "claims that a repeat changes nothing", "a repeat may act again"),
		reach,
	}, ", ")
}

// Pin is the digest of everything in the offer. An offer without a canonical
// form has none, and nothing pins nothing.
func (o Offer) Pin() string {
	digest, err := canon.DigestOf(o)
	if err != nil {
		return ""
	}
	return digest
}

// Difference is one part of an offer that is another than before. Both texts
// are the server's.
type Difference struct {
	Part   string `json:"part"` // "description", "input", …
	Before string `json:"before"`
	Now    string `json:"now"`
}

// Differences returns what of an offer is another now, in a fixed order.
func Differences(before, now Offer) (differences []Difference) {
	note := func(part, was, is string) {
		if was != is {
			differences = append(differences, Difference{Part: part, Before: was, Now: is})
		}
	}
	note("name", before.Name, now.Name)
	note("title", before.Title, now.Title)
	note("description", before.Description, now.Description)
	note("input", canonical(before.Input), canonical(now.Input))
	note("output", canonical(before.Output), canonical(now.Output))
	note("hints", canonical(before.Hints), canonical(now.Hints))
	return differences
}

// canonical is the one form of a JSON value; empty for nothing.
func canonical(value any) string {
	raw, isRaw := value.(json.RawMessage)
	hints, isHints := value.(*Hints)
	if isRaw && len(raw) == 0 || isHints && hints == nil {
		return ""
	}
	text, err := canon.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", raw)
	}
	return string(text)
}

// Quarantine keeps calls of a tool back until people have looked: the server
// gives another definition than the pinned one, or is another server.
type Quarantine struct {
	Tool   string `json:"tool"`            // qualified name
	Server string `json:"server"`          // digest of the server's configuration
	Pin    string `json:"pin"`             // that the tool had
	Live   *Offer `json:"live,omitempty"`  // what the server gives now
	Cause  string `json:"cause,omitempty"` // where the server itself is another: by which part
	AtMs   int64  `json:"atMs"`            // UTC, milliseconds since 1970
}

// Pinning is people's decision that a tool is, from then on, what its server
// gives now.
type Pinning struct {
	Tool       string   `json:"tool"`       // qualified name
	From       string   `json:"from"`       // pin before
	Offer      Offer    `json:"offer"`      // what was looked at
	Was        []string `json:"was"`        // digests of the definitions that the tool had until then
	Is         string   `json:"is"`         // digest of the one that it has since
	By         string   `json:"by"`         // principal id
	ApprovedBy string   `json:"approvedBy"` // principal id
	AtMs       int64    `json:"atMs"`       // UTC, milliseconds since 1970
}

// The most that is kept of an offer.
const maxKept = 64 << 10

// Kept returns the offer as a quarantine keeps it: whole, or where it is too
// long without what makes it so.
func (o Offer) Kept() *Offer {
	const cut = "[too long to keep]"
	for _, part := range []*json.RawMessage{&o.Output, &o.Input} {
		if len(*part) > maxKept {
			*part = json.RawMessage(`"` + cut + `"`)
		}
	}
	o.Description, o.Title, o.Name = short(o.Description), short(o.Title), short(o.Name)
	return &o
}

func short(text string) string {
	if len(text) <= maxKept {
		return text
	}
	return strings.ToValidUTF8(text[:maxKept], "") + "[too long to keep]"
}

// Find returns the server of a name.
func Find(list []Server, name string) (Server, bool) {
	at := slices.IndexFunc(list, func(s Server) bool { return s.Name == name })
	if at < 0 {
		return Server{}, false
	}
	return list[at], true
}
