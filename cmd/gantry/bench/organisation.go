package bench

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gantry.dev/agents"
)

// The benchmark's organisation: its people and its agent.
const (
	organisationName = "bench"
	asker            = "bench.asker"
	approver         = "bench.owner"
	agent            = "reader"
)

//go:embed organisation
var files embed.FS

func loadOrganisation() (agents.Organisation, error) {
	folder, err := fs.Sub(files, "organisation")
	if err != nil {
		return agents.Organisation{}, err
	}
	return agents.LoadDir(folder, agents.LoadOptions{})
}

// layFiles writes what the agent reads: two files, of which a reading is 200
// bytes.
func layFiles(folder string) (root string, err error) {
	root = filepath.Join(folder, "files")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("files: %w", err)
	}
	for number := 1; number <= 2; number++ {
		text := strings.Repeat("line ", 24)
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%d.md", number)), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("files: %w", err)
		}
	}
	return root, nil
}
