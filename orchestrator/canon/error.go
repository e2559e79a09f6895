package canon

import "fmt"

// Code says why a value has no canonical form.
type Code string

// The codes.
const (
	TooLarge      Code = "TOO_LARGE"         // more than MaxBytes
	TooDeep       Code = "TOO_DEEP"          // nested more than MaxDepth
	InvalidUTF8   Code = "INVALID_UTF8"      // bytes that are no UTF-8
	LoneSurrogate Code = "LONE_SURROGATE"    // half of a UTF-16 pair
	Syntax        Code = "SYNTAX"            // not JSON
	TrailingBytes Code = "TRAILING_BYTES"    // more after the value
	DuplicateKey  Code = "DUPLICATE_KEY"     // a key twice in one object
	CaseVariant   Code = "CASE_VARIANT_KEYS" // keys of one object that differ only by case
	KeyWithNUL    Code = "KEY_WITH_NUL"      // U+0000 in a key
	NumberLost    Code = "NUMBER_NOT_EXACT"  // a number that a double cannot hold exactly as written
	IntegerLarge  Code = "INTEGER_TOO_LARGE" // an integer beyond 2^53
	NotJSON       Code = "NO_JSON_FORM"      // a Go value that JSON cannot express
)

// Error says what stands in the way of a canonical form, and where. Its text
// holds nothing of the value; Pointer may hold the value's keys.
type Error struct {
	Code    Code
	Pointer string // JSON pointer (RFC 6901) of the offending value or key
	Offset  int64  // bytes before the place where it was noticed
}

// Error returns the code and the offset.
func (e *Error) Error() string {
	return fmt.Sprintf("no canonical JSON: %s at byte %d", e.Code, e.Offset)
}
