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

// layFiles writes what the agent reads: eight files of half a kilobyte.
func layFiles(folder string) (root string, err error) {
	root = filepath.Join(folder, "files")
	if err := os.MkdirAll(filepath.Join(root, "load"), 0o700); err != nil {
		return "", fmt.Errorf("files: %w", err)
	}
	for number := 1; number <= 8; number++ {
		text := strings.Repeat(fmt.Sprintf("File %d has this line.\n", number), 24)
		if err := os.WriteFile(filepath.Join(root, "load", fmt.Sprintf("%d.md", number)), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("files: %w", err)
		}
	}
	return root, nil
}
