package redisclient

import "strings"

// Slots is the number of hash slots of a Redis cluster.
const Slots = 1 << 14

// Slot returns the hash slot of a key in a cluster: the CRC16 (XMODEM) of its hash tag, or of the
// whole key if it has none.
func Slot(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := 0
	for i := range len(key) {
		crc = crc<<8&0xffff ^ crc16Table[crc>>8^int(key[i])]
	}
	return crc % Slots
}

var crc16Table = func() (table [256]int) {
	for i := range table {
		crc := i << 8
		for range 8 {
			crc <<= 1
			if crc > 0xffff {
				crc = crc&0xffff ^ 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
