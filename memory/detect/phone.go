package detect

import (
	"regexp"
	"strings"
)

// Telephone numbers as they are written: with a country's code; as the United
// States and Canada, countries with a leading zero, and France write them; and
// any number that the words before it call one.
var (
	phoneAbroad  = regexp.MustCompile(`^(?:\+ ?|00 ?)[1-9]\d{0,2}\)?(?:[ ./-]{0,2}\(?\d{1,12}\)?){1,8}`)
	phoneAmerica = regexp.MustCompile(`^(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[.-])[1-9]\d\d[ .-]\d{4}`)
	phoneZero    = regexp.MustCompile(`^\(?0[1-9]\d{1,4}\)? ?[/ -] ?\d{2,8}(?:[ -]\d{1,6}){0,5}`)
	phoneJapan   = regexp.MustCompile(`^0[1-9]\d{0,2}-\d{2,4}-\d{4}`)
	phoneFrance  = regexp.MustCompile(`^0[1-9](?: \d\d \d\d \d\d \d\d|\.\d\d\.\d\d\.\d\d\.\d\d|-\d\d-\d\d-\d\d-\d\d)`)
	phoneNamed   = regexp.MustCompile(`^[+(]{0,2}\d(?:[ ./()-]{0,3}\d){6,14}`)
	saysPhone    = regexp.MustCompile(`(?:\btel\b|telefon|telephone|phone|\bmobile?\b|\bmobil|\bhandy|\bfax\b|\bcell\b|rufnummer|whatsapp|durchwahl|\bsms\b|\bcall (?:me|us)\b|\breach (?:me|us)\b|portable|movil|` +
		`\x{7535}\x{8bdd}|\x{624b}\x{673a}|\x{96fb}\x{8a71})[^0-9+(]{0,24}$`)
	dateForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d\b|^\d{1,2}[./-]\d{1,2}[./-]\d{4}\b`)
)

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
		size, rule := phone(piece(f.text, from), before(lower, from))
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
	if dateForm.MatchString(text) {
		return 0, ""
	}
	if size := whole(phoneAbroad, text); size > 0 && abroad(text[:size]) {
		return size, "phone-abroad"
	}
	if size := whole(phoneAmerica, text); size > 0 {
		return size, "phone-america"
	}
	for _, form := range []*regexp.Regexp{phoneFrance, phoneJapan, phoneZero} {
		size := whole(form, text)
		if n := len(digitsOf(text[:size])); size > 0 && n >= 10 && n <= 12 {
			return size, "phone-national"
		}
	}
	if saysPhone.MatchString(ahead) {
		if size := whole(phoneNamed, text); size > 0 {
			return size, "phone-named"
		}
	}
	return 0, ""
}

// whole returns how far a form goes, without the separators at its end; 0 when
// what follows belongs to it.
func whole(form *regexp.Regexp, text string) int {
	size := len(strings.TrimRight(form.FindString(text), " ./-("))
	if size == 0 || !ends(text, size) {
		return 0
	}
	return size
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
