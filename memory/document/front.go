package document

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// FrontMatter is what a document says about itself, between two lines of three
// dashes before its text. It may add labels; nothing in it takes one away or
// says that the document is to be trusted.
type FrontMatter struct {
	Title       string
	Labels      policy.Labels
	Space       view.Space // empty: not said
	Kind        view.Kind  // empty: not said
	Subject     string
	ValidFromMs int64 // UTC; 0: not said
	ValidToMs   int64 // 0: not said
	ExpiresMs   int64 // 0: not said
}

const frontMost = 64 << 10 // bytes

var (
	labelForm = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._/-]{0,63}$`)
	keyForm   = regexp.MustCompile(`^[a-z_-]{1,32}$`)
)

// parseFront returns the front matter of a text, and the text after it.
func parseFront(text string) (front FrontMatter, rest string, err error) {
	after, found := strings.CutPrefix(text, "---\n")
	if !found {
		return front, text, nil
	}
	block, rest, found := strings.Cut("\n"+after, "\n---\n")
	if !found {
		if block, found = strings.CutSuffix("\n"+after, "\n---"); !found {
			return front, text, nil // a line across the page
		}
		rest = ""
	}
	if strings.TrimSpace(block) == "" {
		return front, rest, nil
	}
	if len(block) > frontMost {
		return front, "", frontError("it has more than 64 KiB")
	}
	decoder := yaml.NewDecoder(strings.NewReader(block))
	var node yaml.Node
	if err := decoder.Decode(&node); err != nil || len(node.Content) != 1 {
		return front, "", frontError("it is not YAML")
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return front, "", frontError("it has several parts")
	}
	top := node.Content[0]
	if top.Kind == yaml.ScalarNode {
		return front, text, nil // a line across the page, and prose up to another
	}
	if top.Kind != yaml.MappingNode {
		return front, "", frontError("it is not a list of keys and values")
	}
	return front, rest, front.set(top)
}

func frontError(why string) error {
	return unreadable(CodeFrontMatter, "The front matter is not read, since "+why+"; correct it, or leave it out.")
}

func (f *FrontMatter) set(top *yaml.Node) error {
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		name := key.Value
		if !keyForm.MatchString(name) {
			name = "on line " + strconv.Itoa(key.Line)
		}
		if seen[name] {
			return frontError("the key " + name + " stands there twice")
		}
		seen[name] = true
		known, err := f.setOne(key.Value, value)
		if !known {
			return frontError("the key " + name + " is not one of title, labels, space, kind, subject, valid_from, valid_to, expires")
		}
		if err != nil {
			return frontError("the value of " + name + " is not " + err.Error())
		}
	}
	if f.ValidToMs != 0 && f.ValidToMs <= f.ValidFromMs {
		return frontError("valid_to is not after valid_from")
	}
	return nil
}

// setOne reports whether there is such a key, and as its error what its value
// ought to be.
func (f *FrontMatter) setOne(key string, value *yaml.Node) (known bool, err error) {
	switch key {
	case "labels":
		return true, f.setLabels(value)
	case "title":
		return true, line(value, &f.Title)
	case "subject":
		return true, line(value, &f.Subject)
	case "space":
		space := view.Space(value.Value)
		if _, _, ok := space.Split(); !ok || value.Kind != yaml.ScalarNode {
			return true, errors.New("a space, as in organisation or department:sales")
		}
		f.Space = space
	case "kind":
		kind := view.Kind(strings.ToUpper(value.Value))
		if !slices.Contains(view.Kinds(), kind) {
			return true, errors.New("a kind, as in passage or procedure")
		}
		f.Kind = kind
	case "valid_from":
		return true, moment(value, &f.ValidFromMs)
	case "valid_to":
		return true, moment(value, &f.ValidToMs)
	case "expires":
		return true, moment(value, &f.ExpiresMs)
	default:
		return false, nil
	}
	return true, nil
}

func (f *FrontMatter) setLabels(value *yaml.Node) error {
	wrong := errors.New("a label or a list of labels")
	nodes := value.Content
	switch value.Kind {
	case yaml.ScalarNode:
		nodes = []*yaml.Node{value}
	case yaml.SequenceNode:
	default:
		return wrong
	}
	var labels []policy.Label
	for _, node := range nodes {
		if node.Kind != yaml.ScalarNode || !labelForm.MatchString(node.Value) {
			return wrong
		}
		labels = append(labels, policy.Label(node.Value))
	}
	f.Labels = policy.NewLabels(labels...)
	return nil
}

func line(value *yaml.Node, to *string) error {
	if value.Kind != yaml.ScalarNode || len(value.Value) > 512 || strings.TrimSpace(value.Value) == "" {
		return errors.New("a line of at most 512 bytes")
	}
	*to = oneLine(value.Value)
	return nil
}

func moment(value *yaml.Node, to *int64) error {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, value.Value); err == nil && value.Kind == yaml.ScalarNode && at.UnixMilli() > 0 {
			*to = at.UnixMilli()
			return nil
		}
	}
	return errors.New("a day as in 2026-03-31, or a time as in 2026-03-31T12:00:00Z")
}
