package detect

import "strings"

// ibanLengths are how many characters an account number has by country.
const ibanLengths = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28" +
	"HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24" +
	"RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30"

func ibanLength(country string) int {
	for i := 0; i < len(ibanLengths); i += 4 {
		if ibanLengths[i:i+2] == country {
			return int(ibanLengths[i+2]-'0')*10 + int(ibanLengths[i+3]-'0')
		}
	}
	return 0
}

// findIBANs finds account numbers of a country's length whose check digits are
// right, written together or in groups.
func findIBANs(f *folded, at []int, found []Span) []Span {
	for _, from := range at {
		if to := iban(f.text, from); to > 0 {
			start, end := f.span(from, to)
			found = append(found, Span{Start: start, End: end, Kind: IBAN, Rule: "iban"})
		}
	}
	return found
}

// iban returns where the account number ends that begins at a place, 0 for none.
func iban(text string, from int) int {
	if from+5 > len(text) || isDigit(text[from]) || !isAlnum(text[from+1]) {
		return 0
	}
	small := isLower(text[from])
	want := ibanLength(strings.ToUpper(text[from : from+2]))
	if want == 0 {
		return 0
	}
	number := make([]byte, 0, want)
	digits := 0
	i := from
	for len(number) < want && i < len(text) {
		if !isAlnum(text[i]) {
			gap := separator(text, i, false)
			if gap == 0 || small && strings.Contains(text[i:i+gap], "\n") {
				return 0
			}
			i += gap
			continue
		}
		if isDigit(text[i]) {
			digits++
		} else if len(number) == 2 || len(number) == 3 {
			return 0
		}
		number = append(number, text[i])
		i++
	}
	if len(number) < want || !ends(text, i) || digits < want/2 || !mod97(strings.ToUpper(string(number))) {
		return 0
	}
	return i
}

// mod97 reports whether the check digits are right, by ISO 7064.
func mod97(number string) bool {
	rest := 0
	for _, b := range []byte(number[4:] + number[:4]) {
		if isDigit(b) {
			rest = (rest*10 + int(b-'0')) % 97
		} else {
			rest = (rest*100 + int(b-'A') + 10) % 97
		}
	}
	return rest == 1
}
