package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"unicode/utf8"

	"gantry.dev/orchestrator/policy"
)

// The media types of a Result.
const (
	MediaJSON = "application/json"
	MediaText = "text/plain"
)

// settle bounds and types what an adapter returned, and holds it against the
// output schema.
func settle(d Definition, result Result) (Result, error) {
	result = bounded(result, d.ResultBytes)
	result.Marking = result.Marking.Join(d.Result)
	result.Media = d.keeps(result.Media)
	if result.Ask != nil {
		if result.Ask.Origin == "" || len(result.Ask.State) > maxState {
			return Result{}, &Failure{Uncertain: above(d), Code: FailedResult, Detail: "the server asks a person in a way that cannot be answered"}
		}
		return Result{Ask: result.Ask, Marking: result.Marking}, nil
	}
	if len(d.Output) == 0 || result.Failed {
		return result, nil
	}
	why := breach(d, result)
	if why == "" {
		return result, nil
	}
	// What breaks its contract is no longer output of a tool that is known.
	result.Marking.Integrity = policy.Untrusted
	if above(d) {
		// "It was done" and "it was not" often differ in the body alone.
		return Result{}, &Failure{Uncertain: true, Code: FailedResult, Detail: why, Reply: &result}
	}
	return failed(FailedResult, why, result), nil
}

// maxState is how many bytes a server may want back with an answer.
const maxState = 64 << 10

// outputs are the compiled output schemas by their text. There are as many as
// definitions that were called.
var outputs sync.Map

func output(d Definition) (*Schema, error) {
	text := string(d.Output)
	if compiled, known := outputs.Load(text); known {
		return compiled.(*Schema), nil
	}
	compiled, err := CompileSchema(d.Output)
	if err == nil {
		outputs.Store(text, compiled)
	}
	return compiled, err
}

// breach says how a result breaks the output schema, or nothing.
func breach(d Definition, result Result) string {
	if result.Cut {
		return "the result is longer than the contract allows and could not be checked"
	}
	if result.MediaType != MediaJSON {
		return "the result is not JSON"
	}
	schema, err := output(d)
	if err != nil {
		return "the output schema is broken"
	}
	if complaints := schema.Check(result.Content); len(complaints) > 0 {
		return "the result does not meet the output schema: " + sentence(complaints)
	}
	return ""
}

// bounded returns the result with at most limit bytes of content, as JSON or
// as text. What is neither is described.
func bounded(result Result, limit int) Result {
	result.Size = max(result.Size, int64(len(result.Content)))
	whole := result.Content
	if len(whole) > limit {
		result.Cut = true
		whole = wholeRunes(whole[:limit])
	}
	if !utf8.Valid(whole) || bytes.IndexByte(whole, 0) >= 0 {
		result.Content, result.MediaType, result.Cut, result.saysSo = described(result), MediaText, true, true
		return result
	}
	result.Content = whole
	if result.MediaType != MediaJSON || result.Cut || !json.Valid(whole) {
		result.MediaType = MediaText
	}
	return result
}

// Shown returns the content as a prompt shows it: where something is missing at
// its end, the end says so, so that nobody takes a part for the whole.
func (r Result) Shown() []byte {
	if !r.Cut || r.saysSo {
		return r.Content
	}
	return fmt.Appendf(slices.Clip(r.Content), "\n[cut: only the first %d bytes are here]", len(r.Content))
}

// described says what bytes are that no text can hold.
func described(result Result) []byte {
	return fmt.Appendf(nil, "[not text: %d bytes, looks like %s, SHA-256 of the %d received bytes %x]",
		result.Size, http.DetectContentType(result.Content), len(result.Content), sha256.Sum256(result.Content))
}

// wholeRunes drops a rune that was cut at the end.
func wholeRunes(text []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		at := len(text) - back
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

// failed returns the result of a tool that surely did nothing, with a code for
// the model. What came back, if anything, stays in it as text.
func failed(code, why string, raw Result) Result {
	content, err := json.Marshal(struct {
		Code string `json:"code"`
		Why  string `json:"why"`
		Raw  string `json:"raw,omitempty"`
	}{code, why, string(raw.Content)})
	if err != nil {
		content = []byte(`{"code":"` + FailedError + `"}`)
	}
	return Result{
		Content: content, MediaType: MediaJSON, Failed: true,
		Size: max(raw.Size, int64(len(content))), Cut: raw.Cut, Marking: raw.Marking, Items: raw.Items, saysSo: true,
	}
}

// Media is an image or a file that a result holds beside its words.
type Media struct {
	MediaType string // one of MediaTypes
	Bytes     []byte
}

// MediaTypes are the kinds of media that a result may hold.
func MediaTypes() []string {
	return []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
}

// maxMedia is how many images and files of one result are kept.
const maxMedia = 16

// Keeps says why a result that has some media already keeps one more of them
// not, in words for the model; empty where it does. The bytes must begin as
// their media type says: a type is only somebody's word.
func (d Definition) Keeps(had []Media, m Media) string {
	size := len(m.Bytes)
	for _, other := range had {
		size += len(other.Bytes)
	}
	switch {
	case d.MediaBytes == 0:
		return "this tool's images and files are not kept"
	case !slices.Contains(MediaTypes(), m.MediaType):
		return "only PNG, JPEG, GIF, WebP and PDF are kept"
	case http.DetectContentType(m.Bytes) != m.MediaType:
		return "its bytes are not what its media type says"
	case size > d.MediaBytes || len(had) >= maxMedia:
		return fmt.Sprintf("at most %d bytes and %d pieces of a result are kept", d.MediaBytes, maxMedia)
	}
	return ""
}

// keeps are those of the media that the contract allows.
func (d Definition) keeps(media []Media) (kept []Media) {
	for _, m := range media {
		if d.Keeps(kept, m) == "" {
			kept = append(kept, m)
		}
	}
	return kept
}
