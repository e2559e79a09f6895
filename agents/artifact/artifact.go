// Package artifact examines what a run claims to have made: whether it is there
// whole, can be read, has the form that it must have, and is what was claimed.
package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"gantry.dev/agents"
	"gantry.dev/agents/expression"
	"gantry.dev/agents/manifest"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/document"
	"gantry.dev/orchestrator/canon"
)

// The codes with which an artifact fails its check.
const (
	Absent     = "ARTIFACT_ABSENT"     // it is not there, or whoever reads does not see it
	Encoding   = "ARTIFACT_ENCODING"   // its text does not stand for bytes as it should
	TooSmall   = "ARTIFACT_TOO_SMALL"  // it has fewer bytes than it must have
	OtherBytes = "ARTIFACT_DIGEST"     // it is not the one whose digest was claimed
	Unreadable = "ARTIFACT_UNREADABLE" // it does not have the format that it must have
	OtherForm  = "ARTIFACT_SCHEMA"     // it does not meet its schema
)

// Partial is the code of an artifact of which only a part could be read, so that
// nothing is known.
const Partial = "ARTIFACT_PARTIAL"

// Fault is what is wrong with an artifact. Its Detail is for the model and
// quotes nothing of the artifact but keys.
type Fault struct{ Code, Detail string }

// Error returns the code and the detail.
func (f *Fault) Error() string { return f.Code + ": " + f.Detail }

// Examine reads an artifact: a JSON or YAML value, the list of a table's rows by
// their headings, or a text. Errors: *Fault; else that nothing can be said.
func Examine(ctx context.Context, want agents.Artifact, claim agents.Claim) (any, error) {
	content := []byte(claim.Content)
	if want.Encoding != "" {
		decoded, err := base64.StdEncoding.DecodeString(claim.Content)
		if err != nil {
			return nil, &Fault{Encoding, "It must be encoded as " + want.Encoding + "."}
		}
		content = decoded
	}
	if least := cmp.Or(want.Bytes, 1); int64(len(content)) < least {
		return nil, &Fault{TooSmall, fmt.Sprintf("It has %d bytes and must have %d at least.", len(content), least)}
	}
	if want.Digest != "" {
		sum := sha256.Sum256(content)
		if !strings.EqualFold(claim.Digest, hex.EncodeToString(sum[:])) {
			return nil, &Fault{OtherBytes, "Its SHA-256 is not the one that the answer claims."}
		}
	}
	value, err := read(ctx, want.Format, content)
	if err != nil {
		return nil, err
	}
	if len(want.Schema) == 0 {
		return value, nil
	}
	return value, conforms(want.Schema, value)
}

func conforms(schema json.RawMessage, value any) error {
	compiled, err := tool.CompileSchema(schema)
	if err != nil {
		return err
	}
	raw, err := canon.Marshal(value)
	if err != nil {
		return &Fault{Unreadable, "It holds a value that JSON cannot."}
	}
	for _, complaint := range compiled.Check(raw) {
		return &Fault{OtherForm, strings.TrimSpace(complaint.Pointer + " " + complaint.Text)}
	}
	return nil
}

func read(ctx context.Context, format string, content []byte) (any, error) {
	switch format {
	case "json":
		return readJSON(content)
	case "yaml":
		var raw json.RawMessage
		parsed, faults := manifest.Parse("artifact", content)
		if len(faults) == 0 {
			faults = parsed.Decode(&raw)
		}
		if len(faults) > 0 {
			return nil, &Fault{Unreadable, "It is no YAML document without repetitions and references."}
		}
		return readJSON(raw)
	case "csv":
		return readTable(content)
	case "text":
		if !utf8.Valid(content) {
			return nil, &Fault{Unreadable, "It is no UTF-8 text."}
		}
		return string(content), nil
	case "pdf":
		return readPDF(ctx, content)
	}
	return nil, fmt.Errorf("no way to read %q", format)
}

func readJSON(content []byte) (any, error) {
	value, err := expression.Decoded(content)
	if err != nil {
		return nil, &Fault{Unreadable, "It is no JSON value."}
	}
	return value, nil
}

// readTable gives each row under the headings of the first one.
func readTable(content []byte) (any, error) {
	if !utf8.Valid(content) {
		return nil, &Fault{Unreadable, "It is no UTF-8 text."}
	}
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, &Fault{Unreadable, "It is no table whose rows have as many fields as its first one has headings."}
	}
	list := make([]any, 0, len(rows))
	for _, row := range rows[1:] {
		named := map[string]any{}
		for i, field := range row {
			named[rows[0][i]] = field
		}
		if len(named) < len(row) {
			return nil, &Fault{Unreadable, "Two columns have the same heading."}
		}
		list = append(list, named)
	}
	return list, nil
}

func readPDF(ctx context.Context, content []byte) (any, error) {
	reader := document.NewReader()
	defer reader.Close() //nolint:errcheck // what was read is read; what remains is memory
	read, err := reader.Read(ctx, "artifact.pdf", content)
	var unreadable *document.Unreadable
	if errors.As(err, &unreadable) {
		return nil, &Fault{Unreadable, "It is no PDF file with text in it."}
	}
	if err != nil {
		return nil, err
	}
	return read.Normal, nil
}
