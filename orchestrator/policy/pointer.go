package policy

import (
	"encoding/json"
	"strconv"
	"strings"
)

// resolvePointer returns the value that a JSON pointer (RFC 6901) names inside
// a canonical document, or false when there is none.
func resolvePointer(document []byte, pointer string) ([]byte, bool) {
	if pointer == "" {
		return document, true
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for token := range strings.SplitSeq(pointer[1:], "/") {
		var found bool
		if document, found = member(document, unescape.Replace(token)); !found {
			return nil, false
		}
	}
	return document, true
}

func member(value []byte, token string) ([]byte, bool) {
	switch value[0] {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return nil, false
		}
		field, found := object[token]
		return field, found
	case '[':
		var array []json.RawMessage
		index, err := strconv.Atoi(token)
		if err != nil || strconv.Itoa(index) != token || json.Unmarshal(value, &array) != nil {
			return nil, false
		}
		if index < 0 || index >= len(array) {
			return nil, false
		}
		return array[index], true
	}
	return nil, false
}
