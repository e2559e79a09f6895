package detect

import (
	"regexp"
	"strings"
)

const (
	ruleKey  = "private-key"
	ruleLong = "long-secret" // what goes on of a secret that is longer than the window

	keyMost = 48 << 10 // bytes of one private key, far more than any has
	keyLine = 1 << 10  // bytes of a line that are looked at together
	keyEnd  = 128      // bytes that the line which closes a key fits in
)

var (
	opensKey  = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-\d:`)
	closesKey = regexp.MustCompile(`-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 ENCRYPTED PRIVATE KEY ----|Private-MAC: ?[0-9a-f]{40,64}`)
	keyHeader = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{1,30}: `)
)

func keyOpening(text string) []int {
	if !strings.Contains(text, "----") && !strings.Contains(text, "PuTTY-") {
		return nil
	}
	return opensKey.FindStringIndex(text)
}

// passKey withholds the lines of a private key: up to the line that closes it,
// up to one that cannot belong to it, or keyMost bytes. What follows its opening
// on the same line is withheld whatever it is.
func (s *scanner) passKey(ended bool) bool {
	head := s.pending[:runeBefore(s.pending, min(len(s.pending), keyLine))]
	line, whole := head, false
	if at := strings.IndexByte(head, '\n'); at >= 0 {
		line, whole = head[:at+1], true
	} else if len(s.pending) < keyLine+4 && !ended {
		return false
	}
	f := fold(line)
	if at := closesKey.FindStringIndex(f.text); at != nil {
		_, after := f.span(at[0], at[1])
		return s.leaveKey(after)
	}
	if s.lineNo > 0 && !keyBody(f.text) || s.keySeen > keyMost {
		return s.leaveKey(0)
	}
	size := len(line)
	if whole {
		s.lineNo++
	} else if !ended || len(s.pending) > len(line) {
		size = runeBefore(line, len(line)-keyEnd)
	}
	s.keySeen += size
	s.add(0, size, Secret, ruleKey)
	s.advance(size, size)
	return true
}

func (s *scanner) leaveKey(size int) bool {
	s.add(0, size, Secret, ruleKey)
	s.advance(size, size)
	s.inside = inText
	return true
}

// keyBody reports whether a line may belong to a private key: empty, a header,
// or one word of base64, perhaps quoted or escaped.
func keyBody(line string) bool {
	line = strings.Trim(line, " \n\t\"'`,;+>|")
	if keyHeader.MatchString(line) {
		return true
	}
	for i := range len(line) {
		if b := line[i]; !isAlnum(b) && strings.IndexByte("+/=\\", b) < 0 {
			return false
		}
	}
	return true
}
