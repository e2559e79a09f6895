// Package policytest draws random values of package policy for property tests.
package policytest

import (
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
)

// Authority draws authorities from a universe so small that two of them often
// share tools, paths and values. Drawn values need not be in normal form.
func Authority() *rapid.Generator[policy.Authority] {
	return rapid.Custom(func(t *rapid.T) policy.Authority {
		small := rapid.IntRange(-1, 3)
		return policy.Authority{
			Tools:       rapid.MapOfN(rapid.SampledFrom([]string{"a.x", "a.y"}), Grant(), 0, 2).Draw(t, "tools"),
			Labels:      labels().Draw(t, "labels"),
			ReadSpaces:  names().Draw(t, "readSpaces"),
			WriteSpaces: names().Draw(t, "writeSpaces"),
			Models:      names().Draw(t, "models"),
			MicroUSD:    int64(small.Draw(t, "microUsd")),
			Tokens:      int64(small.Draw(t, "tokens")),
			DeadlineMs:  int64(small.Draw(t, "deadlineMs")),
			Turns:       small.Draw(t, "turns"),
			Depth:       small.Draw(t, "depth"),
			FanOut:      small.Draw(t, "fanOut"),
			RunsAtOnce:  small.Draw(t, "runsAtOnce"),
			CallsAtOnce: small.Draw(t, "callsAtOnce"),
			Stage:       policy.Stage(rapid.IntRange(0, 4).Draw(t, "stage")),
		}
	})
}

// Grant draws grants of one of two definitions.
func Grant() *rapid.Generator[policy.ToolGrant] {
	return rapid.Custom(func(t *rapid.T) policy.ToolGrant {
		return policy.ToolGrant{
			Revision:    rapid.SampledFrom([]string{"r1", "r1", "r1", "r2"}).Draw(t, "revision"),
			Impact:      policy.Impact(rapid.IntRange(0, 5).Draw(t, "impact")),
			Calls:       rapid.IntRange(0, 3).Draw(t, "calls"),
			Constraints: rapid.SliceOfN(Constraint(), 0, 3).Draw(t, "constraints"),
		}
	})
}

// Constraint draws constraints on a few paths, many of them satisfiable.
func Constraint() *rapid.Generator[policy.Constraint] {
	return rapid.Custom(func(t *rapid.T) policy.Constraint {
		constraint := policy.Constraint{Path: rapid.SampledFrom([]string{"/n", "/s", "/o/n"}).Draw(t, "path")}
		for range rapid.IntRange(0, 2).Draw(t, "parts") {
			addPart(t, &constraint)
		}
		return constraint
	})
}

func addPart(t *rapid.T, constraint *policy.Constraint) {
	switch rapid.IntRange(0, 3).Draw(t, "part") {
	case 0:
		values := rapid.SliceOfN(rapid.SampledFrom(jsonValues), 0, 4).Draw(t, "enum")
		constraint.Enum = &values
	case 1:
		low := rapid.SampledFrom([]string{"-1", "0", "1.0", "2"}).Draw(t, "min")
		constraint.Min = &low
	case 2:
		high := rapid.SampledFrom([]string{"0", "1", "1.50", "2e0", "3"}).Draw(t, "max")
		constraint.Max = &high
	default:
		prefix := rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "prefix")
		constraint.Prefix = &prefix
	}
}

var jsonValues = []string{`0`, `1`, `1.0`, `1.5`, `2`, `"a"`, `"ab"`, `"b"`, `"\u0061b"`, `true`, `null`, `{"n":1}`}

// Arguments draws the canonical arguments of a call over the same universe.
func Arguments() *rapid.Generator[[]byte] {
	value := rapid.SampledFrom([]string{`0`, `1`, `1.5`, `2`, `"a"`, `"ab"`, `"b"`, `true`, `null`})
	return rapid.Custom(func(t *rapid.T) []byte {
		text := `{"n":` + value.Draw(t, "n")
		if rapid.Bool().Draw(t, "nested") {
			text += `,"o":{"n":` + value.Draw(t, "o/n") + `}`
		}
		if rapid.Bool().Draw(t, "more") {
			text += `,"s":` + value.Draw(t, "s")
		}
		return []byte(text + `}`)
	})
}

func names() *rapid.Generator[[]string] {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q", "r"}), 0, 4)
}

func labels() *rapid.Generator[policy.Labels] {
	return rapid.Custom(func(t *rapid.T) policy.Labels {
		drawn := rapid.SliceOfN(rapid.SampledFrom([]policy.Label{"hr", "legal", "pay"}), 0, 4).Draw(t, "set")
		return policy.NewLabels(drawn...)
	})
}
