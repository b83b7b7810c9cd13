package filter_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func saved(tb testing.TB, b *filter.Bloom) []byte {
	tb.Helper()
	var buf bytes.Buffer
	n, err := b.WriteTo(&buf)
	assert.NoError(tb, err, "write")
	assert.Equal(tb, n, int64(buf.Len()), "bytes written")
	return buf.Bytes()
}

// TestFile: a written filter has its ids in their windows after it was read. It says maybe until it
// is marked as whole.
func TestFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := filter.Options{Empty: true, Items: 20_000, FalsePositive: 1e-6, Window: time.Hour, Windows: 3}
		b := newBloom(t, o)
		b.Add(id(1)) // in the previous window
		time.Sleep(time.Hour)
		for i := range uint64(15_000) {
			b.Add(id(100 + i))
		}
		text, written := saved(t, b), time.Now()
		time.Sleep(130 * time.Minute)

		again := newBloom(t, o)
		assert.True(t, again.Saved().IsZero(), "nothing was read yet")
		n, err := again.ReadFrom(io.MultiReader(bytes.NewReader(text), bytes.NewReader([]byte("more"))))
		assert.NoError(t, err, "read")
		assert.Equal(t, n, int64(len(text)), "bytes read")
		assert.True(t, again.Saved().Equal(written), "written at %v, said %v", written, again.Saved())
		assert.True(t, !again.Add(id(1<<40)) && !again.Stats().Whole, "maybe to all")
		again.MarkWhole()
		seen := 0
		for i := range uint64(15_000) {
			if again.MaybeSeen(id(100 + i)) {
				seen++
			}
		}
		assert.Equal(t, seen, 15_000, "that are there")
		assert.True(t, again.Add(id(1<<41)), "new")
		assert.True(t, !again.MaybeSeen(id(1)), "what is older than its windows is not")
		time.Sleep(2 * time.Hour)
		assert.True(t, !again.MaybeSeen(id(100)), "what was read is forgotten in its turn")
	})
}

// TestFileDamaged: any changed or truncated file is an error, and the filter is not marked as
// whole.
func TestFileDamaged(t *testing.T) {
	t.Parallel()
	o := filter.Options{Empty: true, Items: 40, FalsePositive: 0.1}
	b := newBloom(t, o)
	b.Add(id(1))
	text := saved(t, b)
	read := func(text []byte) error {
		f := newBloom(t, o)
		_, err := f.ReadFrom(bytes.NewReader(text))
		assert.True(t, !f.Stats().Whole, "never whole by reading")
		return err
	}
	assert.NoError(t, read(text), "as it was written")
	for cut := range text {
		assert.ErrorIs(t, read(text[:cut]), filter.ErrDamaged, "cut off at %d", cut)
		for bit := range 8 {
			changed := bytes.Clone(text)
			changed[cut] ^= 1 << bit
			assert.ErrorIs(t, read(changed), filter.ErrDamaged, "byte %d, bit %d", cut, bit)
		}
	}
	o.Items = 1000
	err := read(text)
	assert.True(t, err != nil && !errors.Is(err, filter.ErrDamaged), "other options: %v", err)
	assert.Contains(t, err.Error(), "other options", "what is wrong")
	_, err = newBloom(t, o).ReadFrom(io.MultiReader(bytes.NewReader(saved(t, newBloom(t, o))[:20]), brokenReader{}))
	assert.ErrorIs(t, err, errSource, "an error of the reader")
	_, err = b.WriteTo(brokenReader{})
	assert.ErrorIs(t, err, errSource, "an error of the writer")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error)  { return 0, errSource }
func (brokenReader) Write([]byte) (int, error) { return 0, errSource }

func FuzzReadFrom(f *testing.F) {
	o := filter.Options{Empty: true, Items: 40, FalsePositive: 0.1, Window: time.Hour, Windows: 2}
	b := newBloom(f, o)
	b.Add(id(1))
	f.Add(saved(f, b))
	f.Add([]byte("RSBLOOM\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := newBloom(t, o)
		n, err := b.ReadFrom(bytes.NewReader(text))
		if n > int64(len(text)) || b.Stats().Whole || err == nil && b.Saved().IsZero() && n < 40 {
			t.Fatalf("%d of %d bytes, %v", n, len(text), err)
		}
		if b.Add(id(2)) || !b.MaybeSeen(id(2)) {
			t.Fatal("surely new, though nobody knows what is missing")
		}
		saved(t, b)
	})
}

// TestSplicedFile: the beginning of one file and the end of another, as a write in place leaves
// them that was cut off, are damaged.
func TestSplicedFile(t *testing.T) {
	t.Parallel()
	o := filter.Options{Items: 200_000, Empty: true}
	b := newBloom(t, o)
	var texts [2]bytes.Buffer
	for i := range texts {
		for n := range uint64(100_000) {
			b.Add(id(uint64(i)<<32 + n))
		}
		_, err := b.WriteTo(&texts[i])
		assert.NoError(t, err, "write")
	}
	older, newer := texts[0].Bytes(), texts[1].Bytes()
	assert.Equal(t, len(older), len(newer), "sizes")
	for cut := len(newer) / 8; cut < len(newer); cut += len(newer) / 1000 {
		_, err := newBloom(t, o).ReadFrom(bytes.NewReader(append(bytes.Clone(newer[:cut]), older[cut:]...)))
		assert.ErrorIs(t, err, filter.ErrDamaged, "cut at byte %d", cut)
	}
}
