package office_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/office"
)

const token = "0123456789abcdef"

// bearer shows the office's token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func open(t *testing.T) (*office.Office, *mcp.ClientSession) {
	t.Helper()
	o, err := office.Open(t.Context(), office.Config{Path: filepath.Join(t.TempDir(), "office.db"), Own: "office@northwind.example", Mail: office.SampleMail(), Files: office.SampleFiles()})
	require.NoError(t, err)
	server := httptest.NewServer(o.Handler(token))
	session, err := connect(t.Context(), server.URL, token)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, session.Close())
		server.Close()
		require.NoError(t, o.Close())
	})
	return o, session
}

func connect(ctx context.Context, url, with string) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(with)}, DisableStandaloneSSE: true}, nil)
}

func call(t *testing.T, session *mcp.ClientSession, name, key string, arguments map[string]any) (map[string]any, bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments, Meta: mcp.Meta{office.KeyName: key}})
	require.NoError(t, err)
	said := map[string]any{}
	if result.StructuredContent != nil {
		text, err := json.Marshal(result.StructuredContent)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &said))
	}
	return said, result.IsError
}

func TestAKeyIsHonouredWhereTheOfficeSaysSo(t *testing.T) {
	o, session := open(t)
	event := map[string]any{"title": "Visit", "starts": "2026-05-12T09:00:00+02:00", "ends": "2026-05-12T11:00:00+02:00", "attendees": ""}
	mail := map[string]any{"to": "ines@example.org", "subject": "Visit", "text": "See you."}
	file := map[string]any{"path": "minutes.md", "text": "# Minutes"}
	first, failed := call(t, session, "calendar_add", "k1", event)
	require.False(t, failed)
	again, _ := call(t, session, "calendar_add", "k1", event)
	require.Equal(t, first, again)
	for range 2 {
		for _, name := range []string{"mail_draft", "mail_send"} {
			_, failed = call(t, session, name, "k2", mail)
			require.False(t, failed)
		}
		_, failed = call(t, session, "file_write", "k3", file)
		require.False(t, failed)
	}
	done, err := o.Done(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"calendar_add": 1, "mail_draft": 1, "mail_send": 2, "file_write": 2}, done)
	written, _ := call(t, session, "file_read", "", map[string]any{"path": "minutes.md"})
	require.Equal(t, "k3", written["key"], "it can be asked who wrote the file last")
}

func TestWhatIsThereCanBeRead(t *testing.T) {
	_, session := open(t)
	found, _ := call(t, session, "mail_search", "", map[string]any{"box": "INBOX", "word": "12 May"})
	require.Len(t, found["mail"], 1)
	letter, _ := call(t, session, "mail_read", "", map[string]any{"id": 1})
	require.Contains(t, letter["text"], "Four pallets")
	none, _ := call(t, session, "mail_search", "", map[string]any{"box": "INBOX", "word": "%"})
	require.Empty(t, none["mail"], "a wildcard is a letter like any other")
	files, _ := call(t, session, "file_list", "", map[string]any{"prefix": "suppliers/"})
	require.Len(t, files["files"], 1)
	_, failed := call(t, session, "file_read", "", map[string]any{"path": "../etc/passwd"})
	require.True(t, failed)
	_, failed = call(t, session, "calendar_add", "k", map[string]any{"title": "x", "starts": "tomorrow", "ends": "later", "attendees": ""})
	require.True(t, failed)
}

func TestWithoutTheTokenThereIsNoOffice(t *testing.T) {
	o, _ := open(t)
	server := httptest.NewServer(o.Handler(token))
	defer server.Close()
	for _, with := range []string{"", "0123456789abcdeg"} {
		_, err := connect(t.Context(), server.URL, with)
		require.Error(t, err, with)
	}
}
