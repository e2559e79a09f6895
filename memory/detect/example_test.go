package detect_test

import (
	"fmt"

	"gantry.dev/memory/detect"
)

func ExampleFind() {
	text := "Write to ruth@example.com or call +49 30 1234567."
	for _, span := range detect.Find(text) {
		fmt.Println(span.Kind, text[span.Start:span.End])
	}
	// Output:
	// EMAIL ruth@example.com
	// PHONE +49 30 1234567
}

func ExampleRedact() {
	text := "Pay with 4111 1111 1111 1111 today."
	redacted, err := detect.Redact(text, detect.Unite(detect.Find(text)), "[redacted]")
	fmt.Println(redacted, err)
	// Output: Pay with [redacted] today. <nil>
}

func ExampleStream() {
	stream := detect.NewStream("[redacted]")
	for _, piece := range []string{"Her mail is ru", "th@exam", "ple.com, ", "and she reads it."} {
		fmt.Print(stream.Write(piece))
	}
	fmt.Println(stream.Flush())
	// Output: Her mail is [redacted], and she reads it.
}
