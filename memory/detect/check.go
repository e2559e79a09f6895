package detect

import "strings"

// The checks of national numbers. Each gets a number whose form is right.

// compact returns a number's letters and digits, in capitals.
func compact(number string) string {
	out := make([]byte, 0, len(number))
	for i := range len(number) {
		if isAlnum(number[i]) {
			out = append(out, number[i])
		}
	}
	return strings.ToUpper(string(out))
}

func value(digits string) (n int) {
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}

// weighted is the sum of digits by their weights.
func weighted(digits string, weights ...int) (sum int) {
	for i, weight := range weights {
		sum += int(digits[i]-'0') * weight
	}
	return sum
}

func isDay(month, day int) bool {
	days := [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	return month >= 1 && month <= 12 && day >= 1 && day <= days[month-1]
}

func ssn(number string) bool {
	d := digitsOf(number)
	return d[:3] != "000" && d[:3] != "666" && d[0] != '9' && d[3:5] != "00" && d[5:] != "0000"
}

func itin(number string) bool {
	d := digitsOf(number)
	group := value(d[3:5])
	return d[0] == '9' && (group >= 50 && group <= 65 || group >= 70 && group <= 88 || group >= 90 && group <= 92 || group >= 94)
}

// germanTax: one digit of the first ten stands twice or three times, all others
// at most once; the last checks them by ISO 7064.
func germanTax(number string) bool {
	d := digitsOf(number)
	var counts [10]int
	for i := range 10 {
		counts[d[i]-'0']++
	}
	repeated := 0
	for _, count := range counts {
		if count > 3 {
			return false
		}
		if count > 1 {
			repeated++
		}
	}
	product := 10
	for i := range 10 {
		sum := (int(d[i]-'0') + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	return repeated == 1 && (11-product)%10 == int(d[10]-'0')
}

func germanPension(number string) bool {
	n := compact(number)
	letter := int(n[8]-'A') + 1
	d := n[:8] + string([]byte{byte('0' + letter/10), byte('0' + letter%10)}) + n[9:]
	day := value(d[2:4])
	if !isDay(value(d[4:6]), day) && !isDay(value(d[4:6]), day-50) {
		return false
	}
	sum := 0
	for i, weight := range [...]int{2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1} {
		p := int(d[i]-'0') * weight
		sum += p/10 + p%10
	}
	return sum%10 == int(d[12]-'0')
}

func frenchNIR(number string) bool {
	n := compact(number)
	body, less := n[:13], 0
	if n[0] > '2' || n[3:5] == "00" {
		return false
	}
	switch n[5:7] {
	case "2A":
		body, less = n[:5]+"20"+n[7:13], 1000000
	case "2B":
		body, less = n[:5]+"20"+n[7:13], 2000000
	default:
		if !isDigit(n[6]) {
			return false
		}
	}
	return 97-(value(body)-less)%97 == value(n[13:])
}

func nino(number string) bool {
	if strings.IndexByte("DFIQUV", number[0]) >= 0 || strings.IndexByte("DFIOQUV", number[1]) >= 0 || number[len(number)-1] > 'D' {
		return false
	}
	switch number[:2] {
	case "BG", "GB", "NK", "KN", "TN", "NT", "ZZ":
		return false
	}
	return true
}

func nhs(number string) bool {
	d := digitsOf(number)
	check := 11 - weighted(d, 10, 9, 8, 7, 6, 5, 4, 3, 2)%11
	return check%11 == int(d[9]-'0')
}

func swedish(number string) bool {
	d := digitsOf(number)
	d = d[len(d)-10:]
	if first := number[:2]; len(digitsOf(number)) == 12 && first != "19" && first != "20" {
		return false
	}
	day := value(d[4:6])
	return (isDay(value(d[2:4]), day) || isDay(value(d[2:4]), day-60)) && luhn(d)
}

func finnish(number string) bool {
	const characters = "0123456789ABCDEFHJKLMNPRSTUVWXY"
	return isDay(value(number[2:4]), value(number[:2])) && characters[value(number[:6]+number[7:10])%31] == number[10]
}

func norwegian(number string) bool {
	d := digitsOf(number)
	day, month := value(d[:2]), value(d[2:4])
	if day > 40 {
		day -= 40
	}
	if month > 40 {
		month -= 40
	}
	return isDay(month, day) && weighted(d, 3, 7, 6, 1, 8, 9, 4, 5, 2, 1)%11 == 0 && weighted(d, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
}

func danish(number string) bool {
	d := digitsOf(number)
	return isDay(value(d[2:4]), value(d[:2]))
}

func bsn(number string) bool {
	d := digitsOf(number)
	return weighted(d, 9, 8, 7, 6, 5, 4, 3, 2, -1)%11 == 0 && d != "000000000"
}

func belgian(number string) bool {
	d := digitsOf(number)
	month := value(d[2:4]) % 20 // 20 or 40 more where the sex or the number is provisional
	if !isDay(month, value(d[4:6])) && d[2:6] != "0000" {
		return false
	}
	check := value(d[9:])
	return 97-value(d[:9])%97 == check || 97-value("2"+d[:9])%97 == check
}

func swiss(number string) bool {
	d := digitsOf(number)
	return (10-weighted(d, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3)%10)%10 == int(d[12]-'0')
}

func austrian(number string) bool {
	d := digitsOf(number)
	return weighted(d, 3, 7, 9, 0, 5, 8, 4, 2, 1, 6)%11 == int(d[3]-'0') && value(d[4:6]) >= 1 && value(d[4:6]) <= 31 && value(d[6:8]) >= 1 && value(d[6:8]) <= 15
}

const dniLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

func dni(number string) bool {
	n := compact(number)
	return dniLetters[value(n[:8])%23] == n[8]
}

func nie(number string) bool {
	n := compact(number)
	if n[0] < 'X' {
		return false
	}
	return dniLetters[value(string('0'+n[0]-'X')+n[1:8])%23] == n[8]
}

func codiceFiscale(number string) bool {
	odd := [...]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	n := compact(number)
	sum := 0
	for i := range 15 {
		at := int(n[i] - '0')
		if isUpper(n[i]) {
			at = int(n[i] - 'A')
		}
		if i%2 == 0 {
			at = odd[at]
		}
		sum += at
	}
	return byte('A'+sum%26) == n[15]
}

func pesel(number string) bool {
	month := value(number[2:4]) % 20 // 20 more for each later century
	return isDay(month, value(number[4:6])) && weighted(number, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)%10 == 0
}

func cpf(number string) bool {
	d := digitsOf(number)
	first := weighted(d, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10
	second := weighted(d, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10
	return first == int(d[9]-'0') && second == int(d[10]-'0') && strings.Trim(d, d[:1]) != ""
}

func sin(number string) bool { return luhn(digitsOf(number)) }

func tfn(number string) bool {
	return weighted(digitsOf(number), 1, 4, 3, 7, 5, 8, 6, 9, 10)%11 == 0
}

// aadhaar checks by Verhoeff's scheme, in the group of the symmetries of a
// pentagon.
func aadhaar(number string) bool {
	if number[0] < '2' {
		return false
	}
	multiply := [...]string{"0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043", "8765932104", "9876543210"}
	permute := [...]string{"0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258"}
	d := digitsOf(number)
	check := 0
	for i := range len(d) {
		digit := permute[i%8][d[len(d)-1-i]-'0'] - '0'
		check = int(multiply[check][digit] - '0')
	}
	return check == 0
}
