package document

// Unreadable says why a file is not read. It quotes nothing of it.
type Unreadable struct {
	Code   string // one of the codes below
	Detail string // one sentence, and what to do
}

// The codes of Unreadable, which stay as they are.
const (
	CodeTooLarge    = "TOO_LARGE"    // the file, its text, or what it holds
	CodeTooDeep     = "TOO_DEEP"     // values or messages inside of each other
	CodeTimeout     = "TIMEOUT"      // it took more than MaxTime
	CodeEncoding    = "ENCODING"     // its bytes are not text in the encoding that it has or names
	CodeEncrypted   = "ENCRYPTED"    // it asks for a password
	CodeNoText      = "NO_TEXT"      // nothing in it is text, as in a scanned page
	CodeMalformed   = "MALFORMED"    // it breaks its format's rules
	CodeUnsupported = "UNSUPPORTED"  // its format is not one that is read
	CodeFrontMatter = "FRONT_MATTER" // what stands before its text is not understood
	CodeNotOpened   = "NOT_OPENED"   // it cannot be opened or read from where it lies
)

// Error returns the code and the detail.
func (u *Unreadable) Error() string { return u.Code + ": " + u.Detail }

func unreadable(code, detail string) error { return &Unreadable{Code: code, Detail: detail} }
