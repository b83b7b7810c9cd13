package filter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// ErrDamaged means that the data is no complete filter: it is cut off, changed, or something else.
var ErrDamaged = errors.New("filter: what was read is damaged or no filter; rebuild it from the table")

// magic is the beginning of a file; its last byte is the version.
const magic = "RSBLOOM\x01"

// fileHeader has what a reader must have in common with the file, and when the file was written.
type fileHeader struct {
	Parts, K, Windows uint32
	Blocks            uint64
	Window, Saved     int64 // nanoseconds; Saved since 1970
}

// windowChunk is one window of one part. Its blocks follow if it has ids.
type windowChunk struct {
	Turn int64
	IDs  uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b *Bloom) newHeader() fileHeader {
	return fileHeader{
		Parts: uint32(b.shape.parts), K: uint32(b.shape.k), Windows: uint32(b.o.Windows), //nolint:gosec // all are small
		Blocks: uint64(b.shape.blocks), Window: int64(b.o.Window), //nolint:gosec // positive
	}
}

// encodeWithChecksum returns v, and blocks if any, with a checksum at the end, which covers all
// that was written before too. So parts of two files do not make a third one. Encoding a fixed-size
// value cannot fail.
func encodeWithChecksum(buf *bytes.Buffer, sum *uint32, v any, blocks []block) []byte {
	buf.Reset()
	_ = binary.Write(buf, binary.LittleEndian, v)
	_ = binary.Write(buf, binary.LittleEndian, blocks)
	*sum = crc32.Update(*sum, castagnoli, buf.Bytes())
	return binary.LittleEndian.AppendUint32(buf.Bytes(), *sum)
}

// WriteTo writes the filter, so that a restart needs no rebuild. It writes about as many bytes as
// Stats says. It can be called while the filter is in use: ids whose Add begins after WriteTo may
// be missing. Write to a new file and then rename it.
func (b *Bloom) WriteTo(w io.Writer) (n int64, err error) {
	put := func(p []byte) {
		if err == nil {
			var m int
			m, err = w.Write(p)
			n += int64(m)
		}
	}
	h, buf, sum := b.newHeader(), new(bytes.Buffer), new(uint32)
	h.Saved = time.Now().UnixNano()
	put([]byte(magic))
	put(encodeWithChecksum(buf, sum, h, nil))
	for i := range b.parts {
		p := &b.parts[i]
		for slot := range p.windows {
			p.mu.Lock()
			p.rotate(b.clock.currentWindow())
			turn := p.currentWindow.Load()
			turn -= (turn - int64(slot)) % int64(len(p.windows))
			window := &p.windows[slot]
			c, blocks := windowChunk{Turn: turn, IDs: uint64(window.ids.Load())}, []block(nil) //nolint:gosec // a count
			if c.IDs > 0 {
				blocks = window.blocks
			}
			text := encodeWithChecksum(buf, sum, c, blocks)
			p.mu.Unlock()
			put(text)
		}
	}
	return n, err
}

// ReadFrom adds what WriteTo has written to a filter with the same options. [Bloom.Saved] then
// returns the time from which ids may be missing. After ReadFrom the filter says maybe to every id,
// until one of these calls:
//
//   - [Bloom.Rebuild] with the ids that were inserted since Saved, with a margin for clock
//     differences and open transactions
//   - [Bloom.MarkWhole], if the caller knows that no id is missing: the last process wrote the file
//     at its end, after its last insert, and the file was removed before this process inserts
//     anything, so that a third process does not use it again
//
// [ErrDamaged] means that the file is incomplete. What was read before the damage stays in the
// filter and does no harm; run a Rebuild with all ids. Windows that have ended since are left out.
func (b *Bloom) ReadFrom(r io.Reader) (n int64, err error) {
	b.whole.set(false)
	from := &checksumReader{r: r}
	h := b.newHeader()
	start, own := make([]byte, len(magic)), h
	if err := from.readFull(start); err != nil {
		return from.n, err
	}
	if string(start) != magic {
		return from.n, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	if err := from.readWithChecksum(&h, nil); err != nil {
		return from.n, err
	}
	saved := h.Saved
	if h.Saved = 0; h != own {
		return from.n, errors.New("filter: what was read was written with other options (Items, FalsePositive, Window or Windows); use the same, or rebuild")
	}
	blocks := make([]block, b.shape.blocks)
	for i := range b.parts {
		for range b.o.Windows {
			var c windowChunk
			if err := from.readWithChecksum(&c, blocks); err != nil {
				return from.n, err
			}
			b.parts[i].merge(c, blocks, b.clock.currentWindow())
		}
	}
	b.saved.Store(saved)
	return from.n, nil
}

// Saved returns when the data that ReadFrom has read was written, by the writer's clock. It is zero
// if nothing was read.
func (b *Bloom) Saved() time.Time {
	if at := b.saved.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// merge adds a window that was read. A window in the future, since the clock was set back, is added
// to the current one.
func (p *part) merge(c windowChunk, blocks []block, turn int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(turn)
	now := p.currentWindow.Load()
	if c.IDs == 0 || c.Turn <= now-int64(len(p.windows)) {
		return
	}
	w := p.windowAt(min(c.Turn, now))
	for i := range blocks {
		w.blocks[i].add(&blocks[i])
	}
	w.ids.Add(int64(min(c.IDs, mostItems)))
}

// checksumReader is a reader that counts, and keeps the checksum of all that was read.
type checksumReader struct {
	r   io.Reader
	n   int64
	sum uint32
}

func (c *checksumReader) readFull(p []byte) error {
	n, err := io.ReadFull(c.r, p)
	c.n += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends after %d bytes", ErrDamaged, c.n)
	}
	return err
}

// readWithChecksum reads v, the blocks of a chunk with ids, and their checksum.
func (c *checksumReader) readWithChecksum(v any, blocks []block) error {
	text := make([]byte, binary.Size(v))
	if err := c.readFull(text); err != nil {
		return err
	}
	_, _ = binary.Decode(text, binary.LittleEndian, v) // it has that size
	c.sum = crc32.Update(c.sum, castagnoli, text)
	if part, ok := v.(*windowChunk); ok && part.IDs > 0 {
		text = make([]byte, binary.Size(blocks))
		if err := c.readFull(text); err != nil {
			return err
		}
		c.sum = crc32.Update(c.sum, castagnoli, text)
		_, _ = binary.Decode(text, binary.LittleEndian, blocks)
	}
	at := c.n
	var tail [4]byte
	if err := c.readFull(tail[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(tail[:]) != c.sum {
		return fmt.Errorf("%w: the checksum before byte %d is wrong", ErrDamaged, at)
	}
	return nil
}
