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
