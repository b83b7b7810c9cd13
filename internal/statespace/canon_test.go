//go:build !race

package statespace_test

import (
	"bytes"
	"slices"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// coder encodes a world so that two worlds with the same future have the same code: times are
// relative to now, fences are ranks, calls are unordered, and what can no longer matter is left
// out.
type coder struct {
	w            *world
	gone         bool // the record is absent for ever
	buf          []byte
	parts        [][]byte
	fences, wins []uint64
}

// code returns a slice that is valid until the next call.
func (k *coder) code(w *world) []byte {
	k.w = w
	s, m := w.rows(), &w.seen
	row := &s.row
	k.gone = row.State == 0 || w.backsLeft == 0 && row.Absent(s.time)
	k.rank()
	b := append(k.buf[:0], byte(k.fence(max(row.Fence, s.floor))), byte(w.dupsLeft), byte(w.backsLeft),
		bit(m.over)|bit(m.ghosts)<<1|bit(m.told != [3]byte{})<<2|bit(k.gone)<<3)
	if m.told != [3]byte{} || w.backsLeft > 0 {
		b = append(b, k.until(m.keep))
	}
	if w.writes {
		b = append(b, byte(k.fence(w.resource.fence)), byte(k.win(w.resource.win)))
	}
	if w.backsLeft > 0 || w.rules.forgetful {
		// A fence may be ahead of a clock that was set back, and a store that forgets fences starts
		// from the clock.
		b = append(b, byte(k.fence(s.floor)), byte(k.fence(m.highest)), byte(max(int64(m.highest)-s.time, -1)), byte(m.state), byte(m.policy))
	}
	if w.rules.owns != nil || w.rules.won != nil {
		b = append(b, byte(row.Attempt), byte(row.Fence), byte(m.highest))
	}
	if !k.gone {
		b = append(b, byte(row.State), byte(row.OnDoubt), k.until(row.LeaseEnd), k.until(row.Expires),
			k.until(max(row.NotAfter+1-w.retention, 0)), bit(m.allowed)|bit(row.Asks)<<1|bit(row.EarlierCut)<<2)
	}
	k.buf = b
	for len(k.parts) < len(w.calls) {
		k.parts = append(k.parts, nil)
	}
	for i := range w.calls {
		k.parts[i] = k.call(k.parts[i][:0], &w.calls[i])
	}
	parts := k.parts[:len(w.calls)]
	slices.SortFunc(parts, bytes.Compare)
	for _, p := range parts {
		k.buf = append(append(k.buf, byte(len(p))), p...)
	}
	return k.buf
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// until returns how far a time is in the future: zero if it is not set, one if it can never be in
// the future again.
func (k *coder) until(t int64) byte {
	reach := k.w.back * int64(k.w.backsLeft)
	if t == 0 {
		return 0
	}
	return byte(max(t-k.w.store.now()+reach, 0) + 1)
}

// limit is the same for a time whose last moment still counts.
func (k *coder) limit(t int64) byte {
	if t == 0 {
		return 0
	}
	return k.until(t + 1)
}

// hasFence reports whether the fence that c was given can still matter.
func (k *coder) hasFence(c *call) bool {
	return c.phase == running || c.phase == ending || k.w.mayWrite(c) || c.flight&(extend|end|stray|works) != 0
}

func (k *coder) owns(c *call) bool { return !k.gone && k.w.rows().row.Owner == c.owner() }

func (k *coder) rank() {
	w := k.w
	s := w.rows()
	k.fences = append(k.fences[:0], 0, uint64(max(s.row.Fence, s.floor)), uint64(w.resource.fence))
	if w.backsLeft > 0 || w.rules.forgetful {
		k.fences = append(k.fences, uint64(s.floor), uint64(w.seen.highest))
	}
	k.wins = append(k.wins[:0], uint64(w.resource.win))
	for i := range w.calls {
		c := &w.calls[i]
		if k.hasFence(c) {
			k.fences = append(k.fences, uint64(c.fence))
			k.wins = append(k.wins, uint64(c.win))
		}
		k.fences = append(k.fences, uint64(c.giving))
		if k.asks(c) {
			k.fences = append(k.fences, uint64(c.ifFence))
		}
	}
	slices.Sort(k.fences)
	slices.Sort(k.wins)
	k.fences, k.wins = slices.Compact(k.fences), slices.Compact(k.wins)
}

func (k *coder) fence(f storeapi.Fence) int {
	i, _ := slices.BinarySearch(k.fences, uint64(f))
	return i
}

func (k *coder) win(n uint16) int {
	i, _ := slices.BinarySearch(k.wins, uint64(n))
	return i
}

func (k *coder) asks(c *call) bool { return c.phase == acquiring || c.flight&acquires != 0 }

func (k *coder) call(b []byte, c *call) []byte {
	w := k.w
	if c.phase == idle {
		return append(b, bit(c.operator))
	}
	b = append(b, bit(c.operator)|byte(c.phase)<<1, byte(c.flight&^acquires))
	owns := k.owns(c)
	if k.asks(c) {
		b = k.tries(append(b, byte(c.policy), byte(k.fence(c.ifFence)), bit(c.force)), c)
	}
	body := c.body(done)
	mine := func(told []byte) byte {
		if len(told) != len(body) || !bytes.Equal(told[1:], body[1:]) {
			return 0
		}
		return told[0]
	}
	stored := byte(0)
	if !k.gone {
		stored = mine(w.rows().row.Answer.Body)
	}
	b = append(b, k.limit(c.unanswered), byte(k.fence(c.giving)), stored, mine(w.seen.told[:]),
		bit(owns)|bit(owns && c.fence == w.rows().row.Fence)<<1|bit(c.crashed && (owns || k.asks(c)))<<2|bit(w.mayWrite(c))<<3|bit(c.intoDoubt && c.giving != 0)<<4|
			bit(owns && c.returned != 0 && c.returned == w.rows().row.Fence)<<5)
	if k.hasFence(c) {
		b = append(b, byte(k.fence(c.fence)))
		if w.writes {
			b = append(b, byte(k.win(c.win)))
		}
		if w.rules.owns != nil || w.rules.won != nil {
			b = append(b, c.attempt, byte(c.fence))
		}
	}
	active := c.phase == running || c.phase == ending
	if active || c.flight&(end|stray) != 0 {
		b = append(b, byte(c.ending), byte(c.policy), bit(c.wrote))
	}
	if active || c.started && c.binds() {
		b = append(b, byte(c.record), bit(c.started)|bit(c.excused)<<1|bit(c.inert)<<2, w.seen.life-c.life)
	}
	if life := w.seen.life - c.life; !k.gone && life == 0 && (c.fence != 0 || c.giving != 0 || c.returned != 0) {
		b = append(b, bit(k.earlier(c.fence))|bit(k.earlier(c.giving))<<1|bit(c.started)<<2|bit(c.inert)<<3|bit(c.settled)<<4|bit(c.begins)<<5|
			bit(c.fence == w.rows().row.Fence)<<6|bit(k.earlier(c.returned))<<7)
	}
	return b
}

// earlier reports whether the record lists the fence as an earlier attempt.
func (k *coder) earlier(f storeapi.Fence) bool {
	return f != 0 && slices.ContainsFunc(k.w.rows().row.Earlier, func(o storeapi.Worked) bool { return o.Fence == f })
}

// tries encodes a call's Acquires that are in flight. The number of a try matters only for the one
// that the call listens to.
func (k *coder) tries(b []byte, c *call) []byte {
	if c.phase == acquiring {
		b = append(b, c.tries, bit(c.open))
		if c.open { // counts once the caller stops listening
			b = append(b, k.limit(c.notAfter[c.tries-1]), bit(c.flight&(try1<<(c.tries-1)) != 0))
		}
	}
	var under [maxTries]byte
	n := 0
	for t := range maxTries {
		if f := try1 << t; c.flight&f != 0 && !k.w.listens(c, f) {
			under[n] = k.limit(c.notAfter[t])
			n++
		}
	}
	slices.Sort(under[:n])
	return append(append(b, byte(n)), under[:n]...)
}
