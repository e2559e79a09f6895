package policy

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// The longest decimal and the greatest exponent that are read. Doubles, and so
// all numbers in canonical JSON, stay below both; the limits keep a text such
// as 1e999999999 from being written out.
const (
	decimalLength   = 400
	decimalExponent = 400
)

// decimalText returns the shortest plain decimal of a JSON number, without an
// exponent, or false for a text that is no number or out of limits.
func decimalText(text string) (string, bool) {
	number, ok := parseDecimal(text)
	if !ok {
		return "", false
	}
	digits, _ := number.FloatPrec()
	plain := number.FloatString(digits)
	return plain, len(plain) <= decimalLength
}

func parseDecimal(text string) (*big.Rat, bool) {
	if len(text) == 0 || len(text) > decimalLength || !json.Valid([]byte(text)) {
		return nil, false
	}
	if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return nil, false
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(text[at+1:])
		if err != nil || exponent > decimalExponent || exponent < -decimalExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// compareDecimals compares texts that decimalText returned.
func compareDecimals(a, b string) int {
	left, _ := new(big.Rat).SetString(a)
	right, _ := new(big.Rat).SetString(b)
	return left.Cmp(right)
}

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

// member returns one field of an object or element of an array.
func member(value []byte, token string) ([]byte, bool) {
	if value[0] == '{' {
		var object map[string]json.RawMessage
		err := json.Unmarshal(value, &object)
		field, found := object[token]
		return field, err == nil && found
	}
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
