package exchange

import (
	"fmt"
	"regexp"

	"gantry.dev/agents/model"
)

// Names translates between our names of tools and those that every protocol
// allows: a letter or _ first, then letters, digits, _ and -, at most 64.
type Names struct {
	wire map[string]string // by our name
	ours map[string]string // by wire name
}

var (
	notOnWire = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	notFirst  = regexp.MustCompile(`^[0-9-]`)
)

const maxWireName = 64

// NewNames names the offered tools first, so that a name depends on nothing
// but their order, and then those of earlier calls.
func NewNames(request model.Request) Names {
	n := Names{wire: map[string]string{}, ours: map[string]string{}}
	for _, spec := range request.Tools {
		n.add(spec.Name)
	}
	for _, message := range request.Messages {
		for _, call := range message.Calls {
			n.add(call.Name)
		}
	}
	return n
}

func (n Names) add(name string) {
	if _, known := n.wire[name]; known {
		return
	}
	base := notFirst.ReplaceAllString(notOnWire.ReplaceAllString(name, "_"), "_$0")
	base = base[:min(len(base), maxWireName)]
	wire := base
	for i := 2; n.ours[wire] != "" || wire == ""; i++ {
		suffix := fmt.Sprintf("_%d", i)
		wire = base[:min(len(base), maxWireName-len(suffix))] + suffix
	}
	n.wire[name], n.ours[wire] = wire, name
}

// Wire returns what a tool of the request is called on the wire.
func (n Names) Wire(name string) string { return n.wire[name] }

// From returns our name of what a model called. What no tool is called on the
// wire stays as it is: the box of tools then refuses it.
func (n Names) From(wire string) string {
	if name, known := n.ours[wire]; known {
		return name
	}
	return wire
}
