package shardstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Map says which shard is the home of a key. Maps are numbered from 1. A map never changes: a
// change makes a map with the next number.
type Map struct {
	// Number is the number of the map.
	Number int64 `json:"number"`
	// Names are the names of the shards, sorted.
	Names []string `json:"names"`
	// Was are the shards before a change, while keys move; nil if no key moves. During a move a key
	// has two homes, and is claimed at the older one first.
	Was []string `json:"was,omitempty"`
	// Closing: the move is about to end. Until it has, transactions of moving keys ([TxStore]) are
	// refused.
	Closing bool `json:"closing,omitempty"`
	// Lease is how long a process may use this map without another look at the shard, by the
	// shard's clock.
	Lease time.Duration `json:"lease_ns"`
	// Floor is the smallest fence of a new claim: no former shard has given a larger one.
	Floor storeapi.Fence `json:"floor,omitempty"`
}

// Moving reports whether keys are moving from the shards in Was to those in Names.
func (m *Map) Moving() bool { return len(m.Was) > 0 }

// sure is how long a look at a shard is valid.
func (m *Map) sure() time.Duration { return m.Lease - m.Lease/10 }

// Home returns the shard that decides on the key, and the shard that it moves to, which is the same
// if it does not move.
func (m *Map) Home(key storeapi.StoreKey) (home, next string) {
	var space [256]byte
	text, _ := key.AppendText(space[:0]) // never fails
	return m.homes(text)
}

func (m *Map) homes(text []byte) (home, next string) {
	next = pick(m.Names, text)
	if !m.Moving() {
		return next, next
	}
	return pick(m.Was, text), next
}

// pick is rendezvous hashing: it returns the name with the highest score. A new name takes keys
// from all others and moves none between them; removing one leaves the keys of the others where
// they are. The order of names does not matter. The function is frozen.
func pick(names []string, text []byte) string {
	best, most := "", uint64(0)
	for _, name := range names {
		h := fnv.New64a()
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(name)))
		_, _ = h.Write(size[:])
		_, _ = h.Write([]byte(name))
		_, _ = h.Write(text)
		if score := mixed(h.Sum64()); best == "" || score > most || score == most && name < best {
			best, most = name, score
		}
	}
	return best
}

// mixed spreads values that FNV leaves close together (the finalizer of MurmurHash3).
func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// decider returns the shard in which the next map is written first. The first one written there is
// the next map.
func (m *Map) decider() string {
	if m.Moving() {
		return m.Was[0]
	}
	return m.Names[0]
}

// all returns the names of all shards that are the home of any key.
func (m *Map) all() []string { return sorted(slices.Concat(m.Names, m.Was)) }

func (m *Map) same(o *Map) bool {
	return m.Number == o.Number && slices.Equal(m.Names, o.Names) && slices.Equal(m.Was, o.Was) &&
		m.Closing == o.Closing && m.Lease == o.Lease && m.Floor == o.Floor
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkNames refuses names that cannot be stored or that are not distinct.
func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("shardstore: no shards; give at least one")
	}
	if len(names) > maxShards {
		return fmt.Errorf("shardstore: %d shards; use at most %d", len(names), maxShards)
	}
	for i, name := range names {
		switch {
		case name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
			return fmt.Errorf("shardstore: the name of a shard is %q; use 1 to %d visible ASCII characters", name, maxName)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("shardstore: the shard %q is named twice", name)
		}
	}
	return nil
}

const (
	maxShards = 1000
	maxName   = 128
)

// mapCodec is the codec of a map in a record: JSON.
const mapCodec = "shardmap"

func (m *Map) answer() storeapi.Answer {
	body, _ := json.Marshal(m) // strings and numbers: never fails
	return storeapi.Answer{Codec: mapCodec, Body: body, Kept: true}
}

func parseMap(shard string, number int64, a *storeapi.Answer) (*Map, error) {
	m := new(Map)
	err := json.Unmarshal(a.Body, m)
	if a.Codec != mapCodec || err != nil || m.Number != number || checkNames(m.Names) != nil || m.Lease <= 0 {
		return nil, fmt.Errorf("shardstore: map %d in shard %q cannot be read; it was damaged, or made by a newer version of this package", number, shard)
	}
	return m, nil
}
