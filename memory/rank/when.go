package rank

import (
	"strconv"
	"strings"
	"time"
)

// Span is a time from and until, in milliseconds UTC; the end is outside.
type Span struct{ FromMs, UntilMs int64 }

// Spans returns the times that a question names, in order: a day ("October 13,
// 2031", "13th of October", "2031-10-13", "yesterday"), a month ("October
// 2031", "2031-10", "last month"), a week or a year. A month or a day without
// its year is the last one that had begun by then.
func Spans(text string, nowMs int64) []Span {
	p := calendar{now: time.UnixMilli(nowMs).UTC()}
	p.fields = strings.FieldsFunc(fold(text), func(r rune) bool { return !wordy(r) && r != '-' })
	var spans []Span
	for p.at < len(p.fields) {
		if span, taken := p.next(); taken > 0 {
			spans = append(spans, span)
			p.at += taken
			continue
		}
		p.at++
	}
	return spans
}

// calendar reads times out of the fields of a text.
type calendar struct {
	now    time.Time
	fields []string
	at     int
}

func (p *calendar) field(i int) string {
	if i < 0 || i >= len(p.fields) {
		return ""
	}
	return p.fields[i]
}

// next reads a time that begins here, and says how many fields it takes.
func (p *calendar) next() (Span, int) {
	if span, ok := written(p.field(p.at)); ok {
		return span, 1
	}
	if span, taken := p.relative(); taken > 0 {
		return span, taken
	}
	// A day may stand before its month.
	if day := dayOf(p.field(p.at)); day > 0 {
		after := 1
		if p.field(p.at+1) == "of" {
			after = 2
		}
		if month := monthOf(p.field(p.at + after)); month > 0 {
			year, taken := p.year(p.at + after + 1)
			return p.day(year, month, day), after + 1 + taken
		}
	}
	if month := monthOf(p.field(p.at)); month > 0 {
		return p.fromMonth(month)
	}
	return Span{}, 0
}

// fromMonth reads what begins with the name of a month.
func (p *calendar) fromMonth(month time.Month) (Span, int) {
	if day := dayOf(p.field(p.at + 1)); day > 0 {
		year, taken := p.year(p.at + 2)
		return p.day(year, month, day), 2 + taken
	}
	year, taken := p.year(p.at + 1)
	if taken == 0 && !p.meantAsMonth(month) {
		return Span{}, 0
	}
	if year == 0 {
		year = p.now.Year()
		if time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).After(p.now) {
			year--
		}
	}
	from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	return between(from, from.AddDate(0, 1, 0)), 1 + taken
}

// meantAsMonth reports whether a name that is a word too is a month here.
func (p *calendar) meantAsMonth(month time.Month) bool {
	if month != time.May && month != time.March {
		return true
	}
	switch p.field(p.at - 1) {
	case "in", "since", "until", "during", "of", "by", "last", "this", "early", "late", "before", "after", "from", "to":
		return true
	}
	return false
}

// relative reads what counts from now.
func (p *calendar) relative() (Span, int) {
	today := time.Date(p.now.Year(), p.now.Month(), p.now.Day(), 0, 0, 0, 0, time.UTC)
	back := 0
	switch p.field(p.at) {
	case "today":
		return between(today, today.AddDate(0, 0, 1)), 1
	case "yesterday":
		return between(today.AddDate(0, 0, -1), today), 1
	case "last":
		back = 1
	case "this":
	default:
		return Span{}, 0
	}
	switch p.field(p.at + 1) {
	case "week":
		monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7-7*back)
		return between(monday, monday.AddDate(0, 0, 7)), 2
	case "month":
		first := time.Date(p.now.Year(), p.now.Month()-time.Month(back), 1, 0, 0, 0, 0, time.UTC)
		return between(first, first.AddDate(0, 1, 0)), 2
	case "year":
		return yearSpan(p.now.Year() - back), 2
	}
	return Span{}, 0
}

// year reads a year, if there is one, and says how many fields it takes.
func (p *calendar) year(i int) (year, taken int) {
	if year = yearOf(p.field(i)); year > 0 {
		return year, 1
	}
	return 0, 0
}

// day is a day of a year, or of the last year that had it by now.
func (p *calendar) day(year int, month time.Month, day int) Span {
	if year == 0 {
		year = p.now.Year()
		if time.Date(year, month, day, 0, 0, 0, 0, time.UTC).After(p.now) {
			year--
		}
	}
	from := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	return between(from, from.AddDate(0, 0, 1))
}

// written reads a day, a month or a year in digits.
func written(field string) (Span, bool) {
	if from, err := time.Parse("2006-01-02", field); err == nil {
		return between(from, from.AddDate(0, 0, 1)), true
	}
	if from, err := time.Parse("2006-01", field); err == nil {
		return between(from, from.AddDate(0, 1, 0)), true
	}
	if year := yearOf(field); year > 0 {
		return yearSpan(year), true
	}
	return Span{}, false
}

func yearSpan(year int) Span {
	from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	return between(from, from.AddDate(1, 0, 0))
}

func between(from, until time.Time) Span { return Span{from.UnixMilli(), until.UnixMilli()} }

// yearOf reads four digits that are a year of our time.
func yearOf(field string) int {
	year, err := strconv.Atoi(field)
	if err != nil || len(field) != 4 || year < 1900 || year > 2199 {
		return 0
	}
	return year
}

// dayOf reads a day of a month, with or without its ending.
func dayOf(field string) int {
	for _, ending := range [4]string{"st", "nd", "rd", "th"} {
		field = strings.TrimSuffix(field, ending)
	}
	day, err := strconv.Atoi(field)
	if err != nil || len(field) > 2 || day < 1 || day > 31 {
		return 0
	}
	return day
}

func monthOf(field string) time.Month {
	for month := time.January; month <= time.December; month++ {
		if field == strings.ToLower(month.String()) {
			return month
		}
	}
	return 0
}
