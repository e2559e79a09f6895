package model

import (
	"math"
	"math/bits"
)

// Prices are micro-dollars for a million tokens. Zero means that a provider
// charges nothing: a model whose prices nobody knows belongs in no catalogue.
type Prices struct {
	Input      int64 `json:"input"` // not from a cache
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Output     int64 `json:"output"` // of reasoning too
}

// Cost returns what a request cost in micro-dollars, rounded up. A sum that
// does not fit is the largest there is, never a small one.
func (p Prices) Cost(usage Usage) int64 {
	return total(
		[2]int64{usage.Input, p.Input},
		[2]int64{usage.CacheRead, p.CacheRead},
		[2]int64{usage.CacheWrite, p.CacheWrite},
		[2]int64{usage.Output, p.Output},
		[2]int64{usage.Reasoning, p.Output},
	)
}

// WorstCase returns what a request can cost at most, in micro-dollars: every
// byte of the prompt (PromptBytes) a token of its own, at the dearest of the
// input prices, and the longest answer that was allowed.
func (p Prices) WorstCase(promptBytes, maxTokens int64) int64 {
	return total(
		[2]int64{promptBytes, max(p.Input, p.CacheRead, p.CacheWrite)},
		[2]int64{maxTokens, p.Output},
	)
}

// total adds tokens times price, by the million, rounded up once at the end.
func total(parts ...[2]int64) int64 {
	var high, low uint64
	for _, part := range parts {
		h, l := bits.Mul64(uint64(max(part[0], 0)), uint64(max(part[1], 0)))
		if h >= 1_000_000 {
			return math.MaxInt64
		}
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high += h + carry
	}
	low, carry := bits.Add64(low, 999_999, 0)
	high += carry
	if high >= 1_000_000 {
		return math.MaxInt64
	}
	sum, _ := bits.Div64(high, low, 1_000_000)
	if sum > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(sum)
}
