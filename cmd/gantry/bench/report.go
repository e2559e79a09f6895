package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"gantry.dev/cmd/gantry/bench/machine"
)

// Figure is one thing that was measured.
type Figure struct {
	ID    string `json:"id"` // of a goal, for example "P4"; or a name of its own
	Store string `json:"store,omitempty"`
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"`
	machine.Spread
	Goal    *Goal  `json:"goal,omitempty"`
	Verdict string `json:"verdict,omitempty"` // "held" or "missed", of the floor, or "too few to tell"; empty without a goal
	few     bool   // what was measured is too little beside what is there without it
}

// Goal is what a figure is to reach.
type Goal struct {
	Floor   float64 `json:"floor"`
	Stretch float64 `json:"stretch"`
	AtMost  bool    `json:"atMost"` // less is better
}

func atLeast(floor, stretch float64) *Goal { return &Goal{Floor: floor, Stretch: stretch} }

func atMost(floor, stretch float64) *Goal {
	return &Goal{Floor: floor, Stretch: stretch, AtMost: true}
}

// holds reports whether the median reaches the floor.
func (g Goal) holds(value float64) bool {
	if g.AtMost {
		return value <= g.Floor
	}
	return value >= g.Floor
}

// Report is everything that one execution measured. The sides of a ratio were
// measured one right after the other, again in each repetition.
type Report struct {
	Machine Machine  `json:"machine"`
	Figures []Figure `json:"figures"`
	Samples []Sample `json:"samples,omitempty"`
	// Violations is what the doctor found afterwards; anything but 0 makes the
	// figures worthless.
	Violations int `json:"violations"`
}

// Machine is what the figures were measured on.
type Machine struct {
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

func newReport() *Report {
	return &Report{Machine: Machine{Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}}
}

// add notes the values of all repetitions.
func (r *Report) add(f Figure, values ...float64) {
	if len(values) == 0 {
		return
	}
	f.Spread = machine.SpreadOf(values)
	if f.Goal != nil {
		f.Verdict = "missed"
		switch {
		case f.few:
			f.Verdict = "too few to tell"
		case f.Goal.holds(f.Median):
			f.Verdict = "held"
		}
	}
	r.Figures = append(r.Figures, f)
}

// Missed lists the ids of goals whose floor was not reached.
func (r *Report) Missed() (ids []string) {
	for _, f := range r.Figures {
		if f.Verdict == "missed" {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// JSON writes one object.
func (r *Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Table writes a line for each figure.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "%d cores, %s/%s, %s\n\nid\tstore\tmedian\tleast and most\tfloor\tstretch\t\t\n",
		r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	for _, f := range r.Figures {
		floor, stretch := "", ""
		if f.Goal != nil {
			sign := ">="
			if f.Goal.AtMost {
				sign = "<="
			}
			floor, stretch = sign+" "+number(f.Goal.Floor), number(f.Goal.Stretch)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t[%s .. %s]\t%s\t%s\t%s\t%s\n", f.ID, f.Store, number(f.Median), number(f.Min), number(f.Max), floor, stretch, f.Verdict, f.label())
	}
	_, _ = fmt.Fprintf(t, "\nviolations: %d\n", r.Violations)
	return t.Flush()
}

func (f Figure) label() string {
	if f.Unit == "" {
		return f.Name
	}
	return f.Name + ", " + f.Unit
}

// number has three digits that count.
func number(value float64) string {
	if value >= 1000 || value <= -1000 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}
