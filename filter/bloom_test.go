package filter_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// id returns a number as 16 bytes that look random.
func id(n uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, n*0x9E3779B97F4A7C15)
	return binary.LittleEndian.AppendUint64(b, n)
}

func newBloom(tb testing.TB, o filter.Options) *filter.Bloom {
	tb.Helper()
	b, err := filter.NewBloom(&o)
	assert.NoError(tb, err, "a filter")
	return b
}

// TestBloomNeverForgets: an added id is never reported as new. The share of new ids that get
// "maybe" is that of the formula, within a tenth.
func TestBloomNeverForgets(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for _, share := range []float64{0.01, 0.001} {
		b := newBloom(t, filter.Options{Empty: true, Items: n, FalsePositive: share})
		for i := range uint64(n) {
			b.Add(id(i))
		}
		for i := range uint64(n) {
			if b.Add(id(i)) || !b.MaybeSeen(id(i)) {
				t.Fatalf("%d of %d is said to be new", i, n)
			}
		}
		wrong := 0
		for i := range uint64(5 * n) {
			if b.MaybeSeen(id(n + i)) {
				wrong++
			}
		}
		got := float64(wrong) / (5 * n)
		assert.True(t, got < 1.1*share && got > share/2, "share of false positives: %v, %v is the goal", got, share)
		s := b.Stats()
		assert.True(t, s.FalsePositive > got/1.1 && s.FalsePositive < got*1.1, "estimate %v of %v", s.FalsePositive, got)
		assert.True(t, s.Added == 2*n && s.SurelyNew+s.Maybe == s.Added && s.SurelyNew > n*99/100 && s.Whole && !s.Overfull, "stats %+v", s)
		bits := float64(s.Bytes) * 8 / n
		theory := map[float64]float64{0.01: 9.585, 0.001: 14.378}[share]
		assert.True(t, bits < 1.1*theory && bits > 0.9*theory, "bits of an id: %v, %v by theory", bits, theory)
	}
}

// TestBloomOneIsNew: of concurrent calls that add one id, exactly one learns that it is new.
func TestBloomOneIsNew(t *testing.T) {
	t.Parallel()
	b := newBloom(t, filter.Options{Empty: true, Items: 10_000, FalsePositive: 1e-9})
	h, err := filter.NewHyperLogLog(&filter.Options{Empty: true})
	assert.NoError(t, err, "a sketch")
	const n, callers = 2000, 8
	var isNew, byHLL [n]atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range isNew {
				if b.Add(id(uint64(i))) {
					isNew[i].Add(1)
				}
				if h.Add(id(uint64(i))) {
					byHLL[i].Add(1)
				}
				b.MaybeSeen(id(uint64(i)))
			}
		})
	}
	all.Wait()
	for i := range isNew {
		if isNew[i].Load() != 1 || byHLL[i].Load() > 1 {
			t.Fatalf("%d callers were told that %d is new, and %d by the sketch", isNew[i].Load(), i, byHLL[i].Load())
		}
	}
}

// TestWindows: an id is remembered for at least all windows but one, counted from its last Add, and
// at most for all of them.
func TestWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := filter.Options{Empty: true, Items: 1000, FalsePositive: 1e-9, Window: time.Hour, Retention: 3 * time.Hour}
		b := newBloom(t, o)
		h, err := filter.NewHyperLogLog(&o)
		assert.NoError(t, err, "a sketch")
		for step := range uint64(50) {
			n := 2 * step
			assert.True(t, b.Add(id(n)), "new at %d", step)
			h.Add(id(n))
			time.Sleep(3*time.Hour - 1)
			assert.True(t, b.MaybeSeen(id(n)), "seen just within the retention, at %d", step)
			assert.True(t, h.MaybeSeen(id(n)), "seen by the sketch, at %d", step)
			h.Add(id(n))
			assert.True(t, !b.Add(id(n)), "added again at %d", step)
			time.Sleep(3*time.Hour - 1)
			assert.True(t, b.MaybeSeen(id(n)) && !b.Add(id(n)) && h.MaybeSeen(id(n)), "remembered from the last add, at %d", step)
			assert.True(t, b.Add(id(n+1)), "another one is new at %d", step)
			time.Sleep(4 * time.Hour)
			assert.True(t, !b.MaybeSeen(id(n)) && !h.MaybeSeen(id(n)), "forgotten at %d", step)
			time.Sleep(time.Duration(rand.Int64N(int64(time.Hour))))
		}
		assert.True(t, b.Stats().Rotations > 500 && h.Stats().Rotations == b.Stats().Rotations, "rotations: %d", b.Stats().Rotations)
	})
}

// TestWindowsKeepWhatTheyMistake: an id that an old window takes for another is also added to the
// current window, so that it is not forgotten with the old one.
func TestWindowsKeepWhatTheyMistake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBloom(t, filter.Options{Empty: true, Items: 2000, FalsePositive: 0.9, Window: time.Hour, Windows: 2})
		for i := range uint64(2000) {
			b.Add(id(i))
		}
		time.Sleep(time.Hour)
		mistaken := uint64(0)
		for n := uint64(1 << 32); mistaken == 0; n++ {
			if b.MaybeSeen(id(n)) {
				mistaken = n
			}
		}
		assert.True(t, !b.Add(id(mistaken)), "the filter has no mistake to show")
		time.Sleep(time.Hour)
		assert.True(t, b.MaybeSeen(id(mistaken)), "it was forgotten with the window that took it for another")
	})
}

// TestOverfull: too many ids are reported once in a window, and no id is forgotten because of them.
func TestOverfull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, said := logTo()
		b := newBloom(t, filter.Options{Empty: true, Items: 1000, Window: time.Hour, Logger: log})
		for round := range 2 {
			for i := range uint64(5000) {
				b.Add(id(i + uint64(round)<<32))
			}
			assert.Equal(t, strings.Count(said.String(), "more ids than Items"), round+1, "warnings")
			assert.True(t, b.Stats().Overfull && b.Stats().FalsePositive > 0.01, "stats %+v", b.Stats())
			for i := range uint64(5000) {
				assert.True(t, b.MaybeSeen(id(i+uint64(round)<<32)), "%d is there", i)
			}
			time.Sleep(time.Hour)
		}
		time.Sleep(2 * time.Hour)
		assert.True(t, !b.Stats().Overfull && b.Stats().Items == 0, "stats %+v", b.Stats())
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]filter.Options{
		"Items is 0":          {},
		"Items is -1":         {Items: -1},
		"Items is 1000000000": {Items: 10_000_000_001},
		"FalsePositive is 1;": {Items: 1, FalsePositive: 1},
		"FalsePositive is -1": {Items: 1, FalsePositive: -1},
		"Precision is 19":     {Items: 1, Precision: 19},
		"without Window":      {Items: 1, Windows: 3},
		"Window is 1µs":       {Items: 1, Window: time.Microsecond},
		"use 25 windows":      {Items: 1, Window: time.Hour, Windows: 24, Retention: 24 * time.Hour},
		"65 windows":          {Items: 1, Window: time.Hour, Windows: 65},
		"at most 64":          {Items: 1, Window: time.Second, Retention: 1 << 62},
		"use 2 windows":       {Items: 1, Window: time.Hour, Windows: 1},
	} {
		_, err := filter.NewBloom(&o)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
	}
	_, err := filter.NewHyperLogLog(&filter.Options{Empty: true, Precision: 3})
	assert.True(t, err != nil && strings.Contains(err.Error(), "Precision is 3"), "%v", err)
}

// TestForever: rows that are kept for ever need a filter that forgets nothing.
func TestForever(t *testing.T) {
	t.Parallel()
	_, err := filter.NewBloom(&filter.Options{Items: 1000, Window: time.Hour, Windows: 2, Retention: math.MaxInt64})
	assert.Contains(t, fmt.Sprint(err), "forget what is kept", "two windows for ever")
}
