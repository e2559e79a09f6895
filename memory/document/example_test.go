package document_test

import (
	"fmt"

	"gantry.dev/memory/document"
)

func ExampleRead() {
	doc, err := document.Read("handbook.md", []byte("---\nlabels: [staff]\n---\n# Workshop\n\n## Lathe\n\nSwitch it off at the main switch.\n"))
	fmt.Println(doc.Title, doc.Front.Labels, err)
	for _, p := range doc.Passages {
		fmt.Printf("%d. %s: %s (%d bytes from %d on)\n", p.Position, p.Heading, p.Text, p.Length, p.Offset)
	}
	// Output:
	// Workshop staff <nil>
	// 1. Workshop › Lathe: Switch it off at the main switch. (33 bytes from 17 on)
}
