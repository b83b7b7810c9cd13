package protocol

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Report returns what counts at a time, for people.
func (u *Usage) Report(now Micros) storeapi.Usage {
	left := u.withoutExpired(now)
	out := storeapi.Usage{Now: time.UnixMicro(now)}
	for _, b := range left.Buckets {
		out.Keys, out.Bytes = out.Keys+b.Keys, out.Bytes+b.Bytes
		if b.Keys > 0 && out.Frees.IsZero() { // buckets are sorted
			out.Frees = time.UnixMicro(b.Ends)
		}
	}
	for _, r := range left.Rates {
		ahead := r.Next - now
		out.Rates = append(out.Rates, storeapi.RateUsage{
			PerSecond: perSecond(r.Every), Used: (ahead + r.Every - 1) / r.Every, Idle: time.Duration(ahead) * time.Microsecond,
		})
	}
	slices.SortFunc(out.Rates, func(a, b storeapi.RateUsage) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	return out
}

// perSecond returns the rate of a distance between two keys. Several rates have the same distance
// in microseconds; the one with the fewest digits is the one that a person has configured.
func perSecond(every Micros) float64 {
	least := 1e6 / float64(every)
	for digits := range 15 {
		unit := math.Pow10(digits - 1 - int(math.Floor(math.Log10(least))))
		if r := math.Ceil(least*unit) / unit; Micros(math.Ceil(1e6/r)) == every {
			return r
		}
	}
	return least
}
