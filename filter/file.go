package filter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
)

// ErrDamaged says that what was read is no filter that was written whole: cut short, changed, or
// something else.
var ErrDamaged = errors.New("filter: what was read is damaged or no filter; rebuild it from the table")

// magic begins what is written; its last byte is the version.
const magic = "RSBLOOM\x01"

// header is what a reader has to have in common with what was written, and when that was.
type header struct {
	Parts, K, Windows uint32
	Bits              uint64
	Window, Saved     int64 // nanoseconds; since 1970
}

// chunk is one window of one part. It comes before its words, if it has ids.
type chunk struct {
	Turn int64
	IDs  uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b *Bloom) header() header {
	return header{
		Parts: uint32(b.shape.parts), K: uint32(b.shape.k), Windows: uint32(b.o.Windows), //nolint:gosec // all are small
		Bits: uint64(b.shape.bits), Window: int64(b.o.Window),
	}
}

// sealed is v, or v and words, with their checksum behind them. No fixed-size value fails to be
// encoded.
func sealed(buf *bytes.Buffer, v any, words []uint64) []byte {
	buf.Reset()
	_ = binary.Write(buf, binary.LittleEndian, v)
	_ = binary.Write(buf, binary.LittleEndian, words)
	return binary.LittleEndian.AppendUint32(buf.Bytes(), crc32.Checksum(buf.Bytes(), castagnoli))
}

// WriteTo writes the filter, so that a restart need not rebuild it: about as many bytes as Stats
// says. It may be called while the filter is in use: ids whose Add begins after WriteTo may be in
// it or not. Write to a new file and rename it, as one does.
func (b *Bloom) WriteTo(w io.Writer) (n int64, err error) {
	put := func(p []byte) {
		if err == nil {
			var m int
			m, err = w.Write(p)
			n += int64(m)
		}
	}
	h, buf := b.header(), new(bytes.Buffer)
	h.Saved = time.Now().UnixNano()
	put([]byte(magic))
	put(sealed(buf, h, nil))
	for i := range b.parts {
		p := &b.parts[i]
		for slot := range p.windows {
			p.mu.Lock()
			p.rotate(b.clock.turn())
			turn := p.turn - (p.turn-int64(slot))%int64(len(p.windows))
			window := &p.windows[slot]
			c, words := chunk{Turn: turn, IDs: uint64(window.ids)}, []uint64(nil) //nolint:gosec // a count
			if c.IDs > 0 {
				words = window.bits.BitSet().Words()
			}
			text := sealed(buf, c, words)
			p.mu.Unlock()
			put(text)
		}
	}
	return n, err
}

// ReadFrom adds what WriteTo has written to a filter of the same options, and says since when ids
// may be missing by [Bloom.Saved]. From then on the filter says maybe to all, until
//   - [Bloom.Rebuild] has gone through the ids that were inserted since Saved, with a margin for
//     clocks and open transactions; or
//   - [Bloom.MarkWhole] was called by one who knows that there are none: the file was written at
//     the end of the last process, after its last insert, and has been removed before this one
//     inserts anything, so that no third start takes it for new.
//
// [ErrDamaged] says that the file is not whole; what was read up to there stays, does no harm, and
// a Rebuild goes through all ids then. Windows that have passed since are left out.
func (b *Bloom) ReadFrom(r io.Reader) (n int64, err error) {
	b.whole.set(false)
	from := &counting{r: r}
	h := b.header()
	start, own := make([]byte, len(magic)), h
	if err := from.full(start); err != nil {
		return from.n, err
	}
	if string(start) != magic {
		return from.n, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	if err := from.sealed(&h, nil); err != nil {
		return from.n, err
	}
	saved := h.Saved
	if h.Saved = 0; h != own {
		return from.n, errors.New("filter: what was read was written with other options (Items, FalsePositive, Window or Windows); use the same, or rebuild")
	}
	words := make([]uint64, b.shape.bits/64)
	for i := range b.parts {
		for range b.o.Windows {
			var c chunk
			if err := from.sealed(&c, words); err != nil {
				return from.n, err
			}
			b.parts[i].merge(c, words, b.shape, b.clock.turn())
		}
	}
	b.saved.Store(saved)
	return from.n, nil
}

// Saved is when that was written which ReadFrom has read, by the clock of who wrote it; zero if
// nothing was.
func (b *Bloom) Saved() time.Time {
	if at := b.saved.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// merge adds a window that was read. One that lies ahead, since the clock was set back, is taken
// for the current one.
func (p *part) merge(c chunk, words []uint64, s shape, turn int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(turn)
	if c.IDs == 0 || c.Turn <= p.turn-int64(len(p.windows)) {
		return
	}
	w := p.at(min(c.Turn, p.turn))
	_ = w.bits.Merge(bloom.FromWithM(words, s.bits, s.k)) // both have the same size
	w.ids += int(min(c.IDs, mostItems))
}

// counting reads and counts.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) full(p []byte) error {
	n, err := io.ReadFull(c.r, p)
	c.n += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends after %d bytes", ErrDamaged, c.n)
	}
	return err
}

// sealed reads v, the words of a chunk that has ids, and their checksum.
func (c *counting) sealed(v any, words []uint64) error {
	text := make([]byte, binary.Size(v))
	if err := c.full(text); err != nil {
		return err
	}
	_, _ = binary.Decode(text, binary.LittleEndian, v) // it has that size
	sum := crc32.Checksum(text, castagnoli)
	if part, ok := v.(*chunk); ok && part.IDs > 0 {
		text = make([]byte, 8*len(words))
		if err := c.full(text); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, text)
		_, _ = binary.Decode(text, binary.LittleEndian, words)
	}
	at := c.n
	var tail [4]byte
	if err := c.full(tail[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(tail[:]) != sum {
		return fmt.Errorf("%w: the checksum before byte %d is wrong", ErrDamaged, at)
	}
	return nil
}
