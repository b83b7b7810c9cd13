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

// String returns the form with hyphens, in lower case.
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

// Time returns the time of a UUID of version 7, to the millisecond.
func (u UUID) Time() time.Time {
	var b [8]byte
	copy(b[2:], u[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))).UTC() //nolint:gosec // 48 bits
}

// UUIDs makes UUIDs of version 7 (RFC 9562, section 5.7): milliseconds since 1970, and 74 random
// bits. The UUIDs of one UUIDs value are strictly ordered, also within a millisecond and while the
// clock stands still or goes back: then the random bits are incremented by a random step (section
// 6.2, method 2). The zero UUIDs is ready to use, and safe for concurrent use. It needs no lease:
// collisions of 74 random bits are negligible.
type UUIDs struct {
	// Now is the clock; default time.Now. Set it before the first call.
	Now func() time.Time

	mu   sync.Mutex
	last UUID
}

// uuids makes the UUIDs of [UUIDv7].
var uuids UUIDs

// UUIDv7 returns a new UUID of version 7. All calls of this process share one order.
func UUIDv7() UUID { return uuids.Next() }

// Next returns a new UUID of version 7.
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
		m.last = packUUID(ms, binary.BigEndian.Uint16(random[:]), binary.BigEndian.Uint64(random[2:]))
		return m.last
	}
	high, low := binary.BigEndian.Uint16(m.last[6:])&0xfff, binary.BigEndian.Uint64(m.last[8:])&(1<<62-1)
	low += uint64(binary.BigEndian.Uint32(random[:])) + 1
	if low>>62 != 0 {
		low &= 1<<62 - 1
		if high++; high>>12 != 0 {
			high, last = 0, last+1 // the order continues in the next millisecond
		}
	}
	m.last = packUUID(last, high, low)
	return m.last
}

// packUUID combines 48 bits of time and 12 and 62 random bits with version and variant.
func packUUID(ms uint64, high uint16, low uint64) (u UUID) {
	binary.BigEndian.PutUint64(u[:], ms<<16)
	binary.BigEndian.PutUint16(u[6:], high&0xfff|0x7000)
	binary.BigEndian.PutUint64(u[8:], low&(1<<62-1)|1<<63)
	return u
}
