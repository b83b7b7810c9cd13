package idgen

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"
)

// UUID is a universally unique id, its bytes in the order of RFC 9562.
type UUID [16]byte

// String is the form with hyphens, in small letters.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[:], u[:4])
	b[8] = '-'
	hex.Encode(b[9:], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

// Time is that of a UUID of version 7, to the millisecond.
func (u UUID) Time() time.Time {
	var b [8]byte
	copy(b[2:], u[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))).UTC() //nolint:gosec // 48 bits
}

// UUIDs makes UUIDs of version 7 (RFC 9562, section 5.7): milliseconds since 1970, and 74 random
// bits. Those of one maker are in strict order, also within a millisecond and while the clock
// stands still or goes back: the random bits are then counted up by a random step (section 6.2,
// method 2). The zero UUIDs is ready; it is safe for concurrent use. Nothing has to be leased: 74
// random bits do not meet.
type UUIDs struct {
	// Now is the clock; default time.Now. Set it before the first call.
	Now func() time.Time

	mu   sync.Mutex
	last UUID
}

// uuids is what [UUIDv7] makes them by.
var uuids UUIDs

// UUIDv7 makes a UUID of version 7 by the one maker of this process.
func UUIDv7() UUID { return uuids.Next() }

// Next makes one.
func (m *UUIDs) Next() UUID {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails: it would end the process
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	ms := uint64(max(now().UnixMilli(), 0))
	last := binary.BigEndian.Uint64(m.last[:]) >> 16
	if ms > last {
		m.last = pack(ms, binary.BigEndian.Uint16(random[:]), binary.BigEndian.Uint64(random[2:]))
		return m.last
	}
	high, low := binary.BigEndian.Uint16(m.last[6:])&0xfff, binary.BigEndian.Uint64(m.last[8:])&(1<<62-1)
	low += uint64(binary.BigEndian.Uint32(random[:])) + 1
	if low>>62 != 0 {
		low &= 1<<62 - 1
		if high++; high>>12 != 0 {
			high, last = 0, last+1 // the order goes on in the next millisecond
		}
	}
	m.last = pack(last, high, low)
	return m.last
}

// pack puts 48 bits of time, 12 and 62 bits beside version and variant.
func pack(ms uint64, high uint16, low uint64) (u UUID) {
	binary.BigEndian.PutUint64(u[:], ms<<16)
	binary.BigEndian.PutUint16(u[6:], high&0xfff|0x7000)
	binary.BigEndian.PutUint64(u[8:], low&(1<<62-1)|1<<63)
	return u
}
