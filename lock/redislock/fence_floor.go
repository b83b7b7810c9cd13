package redislock

import (
	"strconv"
	"strings"
	"sync"
)

// A floor is the largest fence of the released locks of a slot. With it, the names of released
// locks need not be kept: a holder of a name that does not exist gets a greater fence, also if the
// clock has gone back. Each slot of Redis Cluster has its own floor, since a script may only use
// keys of one slot.

// slotCount is the number of slots.
const slotCount = 16384

// slotTags are hash tags, one for each slot.
var slotTags = sync.OnceValue(func() *[slotCount]string {
	tags := new([slotCount]string)
	for i, left := 0, slotCount; left > 0; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		if slot := crc16Sum(tag) % slotCount; tags[slot] == "" {
			tags[slot] = tag
			left--
		}
	}
	return tags
})

// floorSuffix starts the rest of a floor's key. No lock has such a name, since names contain no
// NUL.
const floorSuffix = "\x00floor"

// floorKey returns the key of the floor of a lock's slot.
func (b *Backend) floorKey(key string) string {
	if _, tagged := hashTag(b.o.Prefix); tagged {
		return b.o.Prefix + floorSuffix // the prefix chooses the slot of all locks
	}
	tag, _ := hashTag(key)
	return b.o.Prefix + floorSuffix + "{" + slotTags()[crc16Sum(tag)%slotCount] + "}"
}

// hashTag returns the part of a key that decides its slot: the text in its first braces, or the
// whole key. See "Key distribution model" in the specification of Redis Cluster.
func hashTag(key string) (tag string, tagged bool) {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag, true
		}
	}
	return key, false
}

// crc16Sum is the CRC of Redis Cluster: XMODEM, polynomial 0x1021.
func crc16Sum(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
