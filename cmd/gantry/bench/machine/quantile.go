package machine

import (
	"slices"
	"time"
)

// Quantiles are of one set of times, in milliseconds.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

// QuantilesOf sorts the times and reads their quantiles.
func QuantilesOf(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(int(share*float64(len(times))), len(times)-1)].Nanoseconds()) / 1e6
	}
	return Quantiles{Count: len(times), P50: at(0.50), P95: at(0.95), P99: at(0.99)}
}

// Spread is what several repetitions of one measurement gave.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf sorts the values; the median of an even number of them is the mean
// of the two in the middle.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// Over divides; over nothing it is 0.
func Over(value, by float64) float64 {
	if by == 0 {
		return 0
	}
	return value / by
}
