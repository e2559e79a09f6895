package artifact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/artifact"
)

func TestExamine(t *testing.T) {
	rows := json.RawMessage(`{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"cents":{"type":"string"}}}}`)
	for name, row := range map[string]struct {
		want  agents.Artifact
		text  string
		value any    // what is read; nil for a fault
		fault string // its code
	}{
		"json":                          {agents.Artifact{Format: "json"}, `{"a":[1,"b"]}`, map[string]any{"a": []any{int64(1), "b"}}, ""},
		"no json":                       {agents.Artifact{Format: "json"}, `{"a":`, nil, artifact.Unreadable},
		"json with a key twice":         {agents.Artifact{Format: "json"}, `{"a":1,"a":2}`, nil, artifact.Unreadable},
		"yaml":                          {agents.Artifact{Format: "yaml"}, "a: [1, b]\n", map[string]any{"a": []any{int64(1), "b"}}, ""},
		"yaml that refers to itself":    {agents.Artifact{Format: "yaml"}, "a: &x [1]\nb: *x\n", nil, artifact.Unreadable},
		"a table":                       {agents.Artifact{Format: "csv", Schema: rows}, "name,cents\nink,100\n", []any{map[string]any{"name": "ink", "cents": "100"}}, ""},
		"a table with headings alone":   {agents.Artifact{Format: "csv", Schema: rows}, "name,cents\n", []any{}, ""},
		"a table without rows":          {agents.Artifact{Format: "csv"}, "\n", nil, artifact.Unreadable},
		"a row that is too short":       {agents.Artifact{Format: "csv"}, "name,cents\nink\n", nil, artifact.Unreadable},
		"a table with a heading twice":  {agents.Artifact{Format: "csv"}, "name,name\na,b\n", nil, artifact.Unreadable},
		"a table of other columns":      {agents.Artifact{Format: "csv", Schema: rows}, "title\nink\n", nil, artifact.OtherForm},
		"text":                          {agents.Artifact{Format: "text", Bytes: 5}, "hello", "hello", ""},
		"a text that is too short":      {agents.Artifact{Format: "text", Bytes: 6}, "hello", nil, artifact.TooSmall},
		"an empty text":                 {agents.Artifact{Format: "text"}, "", nil, artifact.TooSmall},
		"bytes that are no text":        {agents.Artifact{Format: "text", Encoding: "base64"}, base64.StdEncoding.EncodeToString([]byte{0xff}), nil, artifact.Unreadable},
		"text that stands for no bytes": {agents.Artifact{Format: "text", Encoding: "base64"}, "?", nil, artifact.Encoding},
		"no pdf":                        {agents.Artifact{Format: "pdf"}, "%PDF-1.7", nil, artifact.Unreadable},
		"a claimed digest":              {agents.Artifact{Format: "text", Digest: "x"}, "hello", nil, artifact.OtherBytes},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := artifact.Examine(t.Context(), row.want, agents.Claim{Content: row.text, Complete: true})
			if row.fault == "" {
				require.NoError(t, err)
				require.Equal(t, row.value, value)
				return
			}
			var fault *artifact.Fault
			require.True(t, errors.As(err, &fault), "%v", err)
			require.Equal(t, row.fault, fault.Code)
		})
	}
	t.Run("a pdf file", func(t *testing.T) {
		value, err := artifact.Examine(t.Context(), agents.Artifact{Format: "pdf", Encoding: "base64"},
			agents.Claim{Content: base64.StdEncoding.EncodeToString(pdf("Terms of the workshop")), Complete: true})
		require.NoError(t, err)
		require.Contains(t, value, "Terms of the workshop")
	})
}

// pdf writes a PDF file of one page with a line of text.
func pdf(line string) []byte {
	content := "BT /F1 12 Tf 72 720 Td (" + line + ") Tj ET"
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	var table strings.Builder
	for i, object := range []string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 4 0 R >> >> /Contents 5 0 R >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)} {
		fmt.Fprintf(&table, "%010d 00000 n \n", out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", table.String(), at)
	return out.Bytes()
}

func TestADigestCountsHoweverItIsWritten(t *testing.T) {
	for _, claimed := range []string{"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "2CF24DBA5FB0A30E26E83B2AC5B9E29E1B161E5C1FA7425E73043362938B9824"} {
		_, err := artifact.Examine(t.Context(), agents.Artifact{Format: "text", Digest: "output"}, agents.Claim{Content: "hello", Digest: claimed})
		require.NoError(t, err)
	}
}
