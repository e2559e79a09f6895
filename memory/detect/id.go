package detect

import "strings"

// idRule finds the numbers by which one state knows people. Where a number's
// form and check digits do not tell it from others, words before it must.
type idRule struct {
	name  string
	form  string // see matches
	valid func(number string) bool
	said  []string // words in small letters, of which one stands before; nil: not needed
}

var idRules = []idRule{
	{"us-ssn", "999-99-9999", ssn, nil},
	{"us-ssn", "999 99 9999", ssn, nil},
	{"us-ssn", "999999999", ssn, []string{"ssn", "social security"}},
	{"us-itin", "999~99~9999", itin, []string{"itin", "taxpayer"}},
	{"de-tax-id", "#9_999_999_999", germanTax, nil},
	{"de-pension", "99_999999_a_999", germanPension, nil},
	{"fr-nir", "#_99_99_9e_999_999_99", frenchNIR, nil},
	{"uk-nino", "AA_99_99_99_A", nino, nil},
	{"uk-nhs", "999~999~9999", nhs, []string{"nhs"}},
	{"se-personnummer", "999999-9999", swedish, nil},
	{"se-personnummer", "999999+9999", swedish, nil},
	{"se-personnummer", "99999999-9999", swedish, nil},
	{"se-personnummer", "9999999999", swedish, []string{"personnummer", "person nr", "personnr", "samordningsnummer"}},
	{"se-personnummer", "999999999999", swedish, []string{"personnummer", "person nr", "personnr", "samordningsnummer"}},
	{"fi-hetu", "999999s999c", finnish, nil},
	{"no-fodselsnummer", "999999_99999", norwegian, nil},
	{"dk-cpr", "999999~9999", danish, []string{"cpr", "personnummer"}},
	{"nl-bsn", "9999:99:999", bsn, []string{"bsn", "burgerservice", "sofinummer"}},
	{"be-national", "99:99:99~999:99", belgian, nil},
	{"ch-ahv", "756:9999:9999:99", swiss, nil},
	{"at-svnr", "9999_999999", austrian, []string{"svnr", "sozialversicherung", "sv-nummer", "versicherungsnummer"}},
	{"es-dni", "99999999~a", dni, nil},
	{"es-nie", "a~9999999~a", nie, nil},
	{"it-codice-fiscale", "aaaaaa_99a99_a999a", codiceFiscale, nil},
	{"pl-pesel", "99999999999", pesel, nil},
	{"br-cpf", "999.999.999-99", cpf, nil},
	{"br-cpf", "99999999999", cpf, []string{"cpf"}},
	{"ca-sin", "999~999~999", sin, []string{"sin", "nas", "social insurance"}},
	{"in-aadhaar", "9999 9999 9999", aadhaar, nil},
	{"in-aadhaar", "9999-9999-9999", aadhaar, nil},
	{"in-aadhaar", "999999999999", aadhaar, []string{"aadhaar", "aadhar"}},
	{"au-tfn", "999_999_999", tfn, []string{"tfn", "tax file"}},
}

func findIDs(f *folded, lower string, at []int) (found []Span) {
	for _, from := range at {
		text := piece(f.text, from)
		for i := range idRules {
			r := &idRules[i]
			size := matches(r.form, text)
			if size == 0 || !ends(text, size) || !r.valid(text[:size]) || r.said != nil && !said(lower[:from], r.said) {
				continue
			}
			start, end := f.span(from, from+size)
			found = append(found, Span{Start: start, End: end, Kind: NationalID, Rule: r.name})
			break
		}
	}
	return found
}

// said reports whether one of the words stands ahead, with no digit after it.
func said(ahead string, words []string) bool {
	for i := len(ahead); i > 0 && len(ahead)-i < 48; i-- {
		if isDigit(ahead[i-1]) {
			return false
		}
		for _, word := range words {
			if strings.HasSuffix(ahead[:i], word) && (len(word) > 4 || i == len(word) || !isAlnum(ahead[i-len(word)-1])) {
				return true
			}
		}
	}
	return false
}

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
