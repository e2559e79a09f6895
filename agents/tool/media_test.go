package tool_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func picture(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, image.NewGray(image.Rect(0, 0, 9, 9))))
	return out.Bytes()
}

// A media type is somebody's word; what is kept is what it says it is, and no
// more of it than the contract allows.
func TestOnlyTheMediaThatTheContractAllowsAreKept(t *testing.T) {
	require.Equal(t, run.MediaTypes(), tool.MediaTypes(), "what a tool may give, a run may record")
	bytes := picture(t)
	good := tool.Media{MediaType: "image/png", Bytes: bytes}
	for name, row := range map[string]struct {
		room int
		give []tool.Media
		kept int
	}{
		"a picture":           {1 << 10, []tool.Media{good}, 1},
		"none are allowed":    {0, []tool.Media{good}, 0},
		"too large":           {len(bytes) - 1, []tool.Media{good}, 0},
		"too large together":  {2*len(bytes) - 1, []tool.Media{good, good}, 1},
		"too many":            {1 << 20, slices.Repeat([]tool.Media{good}, 20), 16},
		"another type":        {1 << 10, []tool.Media{{MediaType: "image/jpeg", Bytes: bytes}, good}, 1},
		"a type of its own":   {1 << 10, []tool.Media{{MediaType: "image/svg+xml", Bytes: []byte("<svg/>")}}, 0},
		"a page in its place": {1 << 10, []tool.Media{{MediaType: "image/png", Bytes: []byte("<html>")}}, 0},
		"nothing at all":      {1 << 10, []tool.Media{{MediaType: "image/png"}}, 0},
		"a PDF":               {1 << 10, []tool.Media{{MediaType: "application/pdf", Bytes: []byte("%PDF-1.7\n")}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := reader()
			d.MediaBytes = row.room
			result, err := invokeWith(t, d, tool.Result{Content: []byte("it"), MediaType: tool.MediaText, Media: row.give})
			require.NoError(t, err)
			require.Len(t, result.Media, row.kept)
		})
	}
	d := reader()
	for size, ok := range map[int]bool{-1: false, 0: true, tool.MaxMediaBytes: true, tool.MaxMediaBytes + 1: false} {
		d.MediaBytes = size
		if ok {
			require.NoError(t, d.Validate())
		} else {
			require.ErrorContains(t, d.Validate(), "mediaBytes")
		}
	}
}

// A picture or a PDF comes as it is where that is allowed, under the marking of
// its place; without that, and beyond its bound, it is described.
func TestFilesReadShowsPicturesWhereThatIsAllowed(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, bytes []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes, 0o600))
	}
	write("logo.png", picture(t))
	write("plain.pdf", []byte("%PDF-1.4\nall of it is text\n"))
	write("large.pdf", append([]byte("%PDF-1.4\n"), make([]byte, 5000)...))
	write("words.md", []byte("words"))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	read := func(room int, name string) (tool.Result, string) {
		tools, err := tool.NewFiles(root, []tool.FolderRule{{Labels: policy.NewLabels("hr")}}, room, "person:ada", "ops@example.org")
		require.NoError(t, err)
		box, err := tool.NewBox(tools...)
		require.NoError(t, err)
		result := call(t, box, hrPerson, "files.read", arguments{"path": name})
		var said struct{ Text string }
		require.NoError(t, json.Unmarshal(result.Content, &said))
		return result, said.Text
	}
	result, text := read(1000, "logo.png")
	require.Equal(t, []tool.Media{{MediaType: "image/png", Bytes: picture(t)}}, result.Media)
	require.Contains(t, text, "image/png")
	require.Contains(t, text, "beside this result")
	require.Equal(t, policy.NewLabels("hr"), result.Marking.Labels)
	result, _ = read(1000, "plain.pdf")
	require.Equal(t, "application/pdf", result.Media[0].MediaType, "also where all of it could be read as text")
	for name, room := range map[string]int{"logo.png": 0, "large.pdf": 1000, "words.md": 1000} {
		result, text = read(room, name)
		require.Empty(t, result.Media, name)
		require.NotContains(t, text, "beside this result")
	}
}
