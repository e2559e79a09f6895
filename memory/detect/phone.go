package detect

import "strings"

// phoneForms are how the United States and Canada, France and Japan write
// numbers of their own; see matches.
var phoneForms = []struct{ rule, form string }{
	{"phone-america", "(#99)_#99=9999"},
	{"phone-america", "1=(#99)_#99=9999"},
	{"phone-america", "#99;#99=9999"},
	{"phone-america", "1=#99;#99=9999"},
	{"phone-national", "0# 99 99 99 99"},
	{"phone-national", "0#.99.99.99.99"},
	{"phone-national", "0#-99-99-99-99"},
	{"phone-national", "0#-9999-9999"},
	{"phone-national", "0#9-999-9999"},
	{"phone-national", "0#9-9999-9999"},
	{"phone-national", "0#99-99-9999"},
}

// phoneWords are what numbers are called, in small letters.
var phoneWords = []string{
	"telefon", "telephone", "phone", "phone number", "mobil", "mobile", "handy", "handynummer", "fax", "cell", "tel", "rufnummer", "telefonnummer", "whatsapp",
	"durchwahl", "sms", "call me", "call us", "call me at", "call us at", "call me on", "call us on", "reach me", "reach us", "portable", "movil",
	"\u7535\u8bdd", "\u624b\u673a", "\u96fb\u8a71", "\u643a\u5e2f",
}

// callingCodes are the codes of countries, each between spaces.
const callingCodes = " 1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98" +
	" 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 247 248 249 250" +
	" 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 370 371 372" +
	" 373 374 375 376 377 378 379 380 381 382 383 385 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596 597" +
	" 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 800 808 850 852 853 855 856 870 878 880 881 882 883" +
	" 886 888 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 979 992 993 994 995 996 998 "

func findPhones(f *folded, lower string, at []int) (found []Span) {
	until := 0
	for _, from := range at {
		if from < until || isUpper(f.text[from]) || isLower(f.text[from]) {
			continue
		}
		size, rule := phone(piece(f.text, from), lower[:from])
		if size == 0 {
			continue
		}
		until = from + size
		start, end := f.span(from, until)
		found = append(found, Span{Start: start, End: end, Kind: Phone, Rule: rule})
	}
	return found
}

// phone returns the length of the number that a text begins with, and the rule
// that says so; 0 for none.
func phone(text, ahead string) (size int, rule string) {
	if isDate(text) {
		return 0, ""
	}
	for _, known := range phoneForms {
		size := matches(known.form, text)
		// A dialling code of the United States begins with 2 at least.
		if size > 0 && ends(text, size) && (text[0] == '0' || strings.TrimLeft(text, "1(.- ")[0] >= '2') {
			return size, known.rule
		}
	}
	end, digits := groups(text, " ./()-", 3)
	if digits < 7 || digits > 17 || !ends(text, end) {
		return 0, ""
	}
	switch {
	case (text[0] == '+' || strings.HasPrefix(text, "00")) && abroad(text[:end]):
		return end, "phone-abroad"
	case digits >= 10 && digits <= 12 && withZero(text[:end]):
		return end, "phone-national"
	case digits <= 15 && said(ahead, phoneWords):
		return end, "phone-named"
	}
	return 0, ""
}

// groups returns where the digits end that a text begins with, and how many
// they are. Up to gap separators may stand between two of them, and a plus or a
// bracket before the first.
func groups(text, separators string, gap int) (end, digits int) {
	since := 0
	for i := range len(text) {
		switch {
		case isDigit(text[i]):
			digits++
			end, since = i+1, 0
		case digits == 0 && (text[i] == '+' || text[i] == '(') && i < 2:
		case digits == 0 && text[i] == ' ' && i == 1 && text[0] == '+':
		case strings.IndexByte(separators, text[i]) >= 0 && since < gap && digits > 0:
			since++
		default:
			return end, digits
		}
	}
	return end, digits
}

// withZero reports whether a number is one as countries write it that dial a
// zero before the code of a place: the code apart from the rest.
func withZero(number string) bool {
	bracket := number[0] == '('
	number = strings.TrimPrefix(number, "(")
	code := 0
	for code < len(number) && isDigit(number[code]) {
		code++
	}
	rest := strings.TrimLeft(number[code:], ") /-")
	return code >= 3 && code <= 6 && number[0] == '0' && number[1] != '0' && len(rest) < len(number)-code &&
		bracket == strings.HasPrefix(number[code:], ")") && !strings.ContainsAny(rest, "./()")
}

func isDate(text string) bool {
	for _, form := range []string{"9999-99-99", "99.99.9999", "99/99/9999", "99-99-9999", "9.9.9999", "9/9/9999"} {
		if size := matches(form, text); size > 0 && (size == len(text) || !isDigit(text[size])) {
			return true
		}
	}
	return false
}

// abroad reports whether a number with a country's code can be one.
func abroad(number string) bool {
	digits := digitsOf(number)
	if number[0] != '+' {
		if digits = digits[2:]; len(digits) < 9 {
			return false
		}
	}
	if digits[0] == '1' {
		return len(digits) == 11 && digits[1] >= '2'
	}
	if len(digits) < 8 || len(digits) > 15 {
		return false
	}
	for size := 1; size <= 3; size++ {
		if strings.Contains(callingCodes, " "+digits[:size]+" ") {
			return true
		}
	}
	return false
}
