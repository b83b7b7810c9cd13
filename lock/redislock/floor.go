package redislock

import (
	"strconv"
	"strings"
	"sync"
)

// A floor has the largest fence of the locks of a slot that were released, so that their names need
// not be kept: whoever takes a name that is not there gets a greater one, also when the clock has
// gone back. There is one for each slot of Redis Cluster, since a script may only touch keys of one
// slot.

// slots is how many there are.
const slots = 16384

// slotTags are hash tags, one of each slot.
var slotTags = sync.OnceValue(func() *[slots]string {
	tags := new([slots]string)
	for i, left := 0, slots; left > 0; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		if slot := crc16(tag) % slots; tags[slot] == "" {
			tags[slot] = tag
			left--
		}
	}
	return tags
})

// floorName begins the rest of the key of a floor. No lock has such a name: they have no NUL.
const floorName = "\x00floor"

// floor is the key of the floor of a lock's slot.
func (b *Backend) floor(key string) string {
	if _, tagged := hashTag(b.o.Prefix); tagged {
		return b.o.Prefix + floorName // the prefix chooses the slot of all
	}
	tag, _ := hashTag(key)
	return b.o.Prefix + floorName + "{" + slotTags()[crc16(tag)%slots] + "}"
}

// hashTag is what a key's slot is computed of: what stands in its first braces, or all. See "Key
// distribution model" in the specification of Redis Cluster.
func hashTag(key string) (tag string, tagged bool) {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag, true
		}
	}
	return key, false
}

// crc16 is the one of Redis Cluster: XMODEM, polynomial 0x1021.
func crc16(s string) (crc uint16) {
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
