package detect

import "strings"

// Forms describe numbers by one byte for each of their places, so that telling
// that a number does not begin here takes a comparison or two:
//
//	9  a digit                    #  a digit from 1 to 9
//	a  a letter                   A  a capital
//	c  a capital or digit         e  a digit, A or B
//	_  a space, or nothing        ~  a space or dash, or nothing
//	:  a space or dot, or nothing =  a space, dot or dash
//	;  a dot or dash              s  what stands for a century in Finland
//
// and any other byte for itself. What may be missing is never what comes next
// in a form, so there is one way to read it.
//
// matches returns how long what has the form is at the beginning of a text, 0
// when that has another.
func matches(form, text string) int {
	at := 0
	for i := range len(form) {
		var b byte
		if at < len(text) {
			b = text[at]
		}
		switch fits(form[i], b) {
		case fitsNot:
			return 0
		case fitsHere:
			at++
		}
	}
	return at
}

type fitting uint8

const (
	fitsNot   fitting = iota
	fitsHere          // the byte has this place
	fitsEmpty         // the place is left out
)

func fits(place, b byte) fitting {
	switch place {
	case '9':
		return when(isDigit(b))
	case '#':
		return when(b >= '1' && b <= '9')
	case 'a':
		return when(isUpper(b) || isLower(b))
	case 'A':
		return when(isUpper(b))
	case 'c':
		return when(isUpper(b) || isDigit(b))
	case 'e':
		return when(isDigit(b) || b|0x20 == 'a' || b|0x20 == 'b')
	case 's':
		return when(b != 0 && strings.IndexByte("-+ABCDEFYXWVU", b) >= 0)
	case '=':
		return when(b == ' ' || b == '.' || b == '-')
	case ';':
		return when(b == '.' || b == '-')
	case '_':
		return optional(b == ' ')
	case '~':
		return optional(b == ' ' || b == '-')
	case ':':
		return optional(b == ' ' || b == '.')
	}
	return when(b == place)
}

func when(fit bool) fitting {
	if fit {
		return fitsHere
	}
	return fitsNot
}

func optional(fit bool) fitting {
	if fit {
		return fitsHere
	}
	return fitsEmpty
}
