package prompt

import "gantry.dev/orchestrator/run"

// steps say how much of a run stays whole, from the gentlest: the bytes of each
// text that stands in brief, those of a result that stands whole (0: as before),
// the turns and messages at the end that stay, and how much of the room is used
// so that a few more turns fit.
var steps = []struct {
	excerpt, result int64
	turns, said     int
	percent         int64
}{
	{600, 0, 3, 4, 60},
	{200, 0, 3, 4, 60},
	{100, 8 << 10, 2, 2, 60},
	{50, 2 << 10, 1, 1, 80},
	{0, 512, 1, 0, 100},
}

// Shorten finds what to show in brief so that the prompt has at most so many
// bytes: as much as possible stays whole, and the last turn always does. It
// reports whether there is such a form.
func Shorten(in Input, bytes int64) (run.Brief, bool, error) {
	for _, step := range steps {
		now := in.State.Brief()
		whole := run.Brief{Excerpt: step.excerpt, Result: step.result, Unshown: now.Unshown}
		if now.Said+now.Through > 0 {
			whole.Excerpt = min(whole.Excerpt, now.Excerpt)
		}
		if now.Result > 0 && (step.result == 0 || now.Result < step.result) {
			whole.Result = now.Result
		}
		said := max(len(in.State.Started.History)-step.said, now.Said)
		through := max(in.State.Answered()-step.turns, now.Through)
		// at is the form in which so many more of the oldest messages, then turns, stand in brief.
		at := func(more int) run.Brief {
			form := whole
			form.Said = min(now.Said+more, said)
			form.Through = now.Through + max(more-(said-now.Said), 0)
			return form
		}
		form, fits, err := fewest(in, at, said-now.Said+through-now.Through, bytes*step.percent/100)
		if err != nil || fits && in.State.MayShorten(form) {
			return form, fits, err
		}
	}
	return run.Brief{}, false, nil
}

// fewest finds the first of the forms, each shorter than the one before, that
// has at most so many bytes.
func fewest(in Input, at func(int) run.Brief, last int, bytes int64) (run.Brief, bool, error) {
	fits := func(more int) (bool, error) {
		in.Brief = at(more)
		compiled, err := Compile(in)
		return compiled.Bytes <= bytes, err
	}
	if ok, err := fits(last); err != nil || !ok {
		return run.Brief{}, false, err
	}
	from, to := 0, last
	for from < to {
		middle := (from + to) / 2
		ok, err := fits(middle)
		if err != nil {
			return run.Brief{}, false, err
		}
		if ok {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return at(to), true, nil
}
