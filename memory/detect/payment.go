package detect

import "strings"

const (
	cardLeast = 12 // digits
	cardMost  = 19
)

// findCards finds numbers of payment cards: of a known issuer, of its length,
// with the right check digit, and grouped as cards are, if at all.
func findCards(f *folded, at []int) (found []Span) {
	for _, from := range at {
		if !isDigit(f.text[from]) {
			continue
		}
		if to := card(f.text, from); to > 0 {
			start, end := f.span(from, to)
			found = append(found, Span{Start: start, End: end, Kind: Card, Rule: "payment-card"})
		}
	}
	return found
}

// card returns where the longest card number ends that begins at a place, 0 for
// none.
func card(text string, from int) (to int) {
	var number [cardMost + 1]byte
	var sizes [cardMost + 1]int
	digits, groups := number[:0], sizes[:0]
	for i := from; len(digits) <= cardMost; {
		begin := i
		for i < len(text) && isDigit(text[i]) && len(digits) <= cardMost {
			digits = append(digits, text[i])
			i++
		}
		groups = append(groups, i-begin)
		if groups[0] != 4 && groups[0] < cardLeast {
			break
		}
		if ends(text, i) || separator(text, i, true) > 0 && text[i] != '.' {
			if len(digits) >= cardLeast && grouped(groups) && issued(string(digits)) && luhn(string(digits)) {
				to = i
			}
		}
		gap := separator(text, i, true)
		if gap == 0 {
			break
		}
		i += gap
	}
	return to
}

// separator returns how long what stands between two groups of digits is, 0
// when no further group follows.
func separator(text string, at int, dots bool) int {
	i := blanks(text, at)
	if i < len(text) && (text[i] == '-' || text[i] == '/' || dots && text[i] == '.') {
		i = blanks(text, i+1)
	}
	if i == at || i >= len(text) || !isAlnum(text[i]) || dots && !isDigit(text[i]) {
		return 0
	}
	return i - at
}

// blanks returns where the next thing is that is no space or line break, as far
// as they go inside of a number.
func blanks(text string, from int) int {
	at := from
	for at < len(text) && at-from < 16 && (text[at] == ' ' || text[at] == '\n') {
		at++
	}
	return at
}

// grouped reports whether digits stand in groups as on a card: all together, by
// four, or 4-6-5 and 4-6-4.
func grouped(groups []int) bool {
	if len(groups) == 1 {
		return true
	}
	if len(groups) == 3 && groups[0] == 4 && groups[1] == 6 {
		return groups[2] == 4 || groups[2] == 5
	}
	for _, size := range groups[:len(groups)-1] {
		if size != 4 {
			return false
		}
	}
	return groups[len(groups)-1] <= 4
}

var cardIssuers = []struct {
	low, high string // first digits, inclusive
	lengths   string // of the number, in bytes of this string
}{
	{"4", "4", "\x0d\x10\x13"},
	{"51", "55", "\x10"},
	{"2221", "2720", "\x10"},
	{"34", "34", "\x0f"},
	{"37", "37", "\x0f"},
	{"300", "305", "\x0e"},
	{"36", "36", "\x0e"},
	{"38", "39", "\x0e\x10"},
	{"6011", "6011", "\x10\x13"},
	{"644", "659", "\x10\x13"},
	{"3528", "3589", "\x10\x11\x12\x13"},
	{"62", "62", "\x10\x11\x12\x13"},
	{"81", "81", "\x10\x13"},
	{"5018", "5018", "\x0c\x0d\x0e\x0f\x10\x11\x12\x13"},
	{"5020", "5020", "\x0c\x0d\x0e\x0f\x10\x11\x12\x13"},
	{"5038", "5038", "\x0c\x0d\x0e\x0f\x10\x11\x12\x13"},
	{"6304", "6304", "\x0c\x0d\x0e\x0f\x10\x11\x12\x13"},
	{"6759", "6763", "\x0c\x0d\x0e\x0f\x10\x11\x12\x13"},
	{"2200", "2204", "\x10\x11\x12\x13"},
}

func issued(digits string) bool {
	for _, issuer := range cardIssuers {
		if first := digits[:len(issuer.low)]; first >= issuer.low && first <= issuer.high && strings.IndexByte(issuer.lengths, byte(len(digits))) >= 0 {
			return true
		}
	}
	return false
}

// luhn reports whether the last digit checks the others by Luhn's formula.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && strings.Trim(digits, "0") != ""
}

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
