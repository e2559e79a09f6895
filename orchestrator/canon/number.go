package canon

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// largestInteger is 2^53: below it every integer has a double of its own.
const largestInteger = 1 << 53

// exactDigits is how many decimal digits every double can hold.
const exactDigits = 15

// numberFault says why a number as written does not survive as a double, or
// nothing when it does.
func numberFault(number []byte) Code {
	if len(number) <= exactDigits && !bytes.ContainsAny(number, ".eE") {
		return ""
	}
	written := string(number)
	double, err := strconv.ParseFloat(written, 64)
	if err != nil || math.IsInf(double, 0) {
		return NumberLost
	}
	if double == math.Trunc(double) && math.Abs(double) > largestInteger {
		return IntegerLarge
	}
	before, ok := decimalOf(written)
	if !ok {
		return NumberLost
	}
	// The shortest text of the double is what canonical JSON holds. Both must
	// name the same decimal, or a digit was lost.
	after, _ := decimalOf(strconv.FormatFloat(double, 'e', -1, 64))
	if before != after {
		return NumberLost
	}
	return ""
}

// decimal is a number as digits × 10^exponent, without zeros at either end of
// digits, so that equal numbers are equal values. Zero has no digits.
type decimal struct {
	digits   string
	exponent int
	negative bool
}

func decimalOf(written string) (decimal, bool) {
	rest, negative := strings.CutPrefix(written, "-")
	exponent := 0
	if at := strings.IndexAny(rest, "eE"); at >= 0 {
		given, err := strconv.Atoi(rest[at+1:])
		// An exponent that is no int belongs to a number of zero or to none
		// that a double holds.
		if err != nil && strings.Trim(rest[:at], "0.") != "" {
			return decimal{}, false
		}
		rest, exponent = rest[:at], given
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return decimal{}, true
	}
	return decimal{digits: trimmed, exponent: exponent, negative: negative}, true
}
