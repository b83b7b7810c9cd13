package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/redisclient"
)

// unfinishedIndex is the index of the records in progress, and so of those in doubt: a sorted set
// with the names of their keys, in their order. A claim adds the name in the same script that
// writes the record, and finishing removes it, so every record in progress is in it. A name whose
// record has expired stays until a list finds it.
//
// One server has one index. In a cluster each slot has one, since a script reaches only one slot.
// An index that is complete has the empty name. Without it there may be records that were written
// before there was an index; see fillIndex.
type unfinishedIndex struct {
	// name is the key of the index; in a cluster the beginning of the keys. Empty: there is none.
	name    string
	perSlot bool
	// routed: the client sends each key to its server in a cluster.
	routed   bool
	building atomic.Bool
}

// slotIndex is the key of a slot's index in a cluster. It has a hash tag of the slot.
func (u *unfinishedIndex) slotIndex(slot int) string { return u.name + ":{" + slotTags()[slot] + "}" }

// indexOf returns the key of the index for a record; empty if there is none.
func (u *unfinishedIndex) indexOf(record string) string {
	if !u.perSlot {
		return u.name
	}
	return u.slotIndex(redisclient.Slot(record))
}

// allIndexes returns the keys of all indexes.
func (u *unfinishedIndex) allIndexes() (names []string) {
	if !u.perSlot {
		return []string{u.name}
	}
	for slot := range slotTags() {
		names = append(names, u.slotIndex(slot))
	}
	return names
}

// slotTags has for each slot of a cluster a short text that falls into it.
var slotTags = sync.OnceValue(func() []string {
	const digits = "abcdefghijklmnopqrstuvwxyz"
	tags := make([]string, redisclient.Slots)
	for n, missing := 0, len(tags); missing > 0; n++ {
		var text []byte
		for rest := n; rest > 0 || text == nil; rest /= len(digits) {
			text = append(text, digits[rest%len(digits)])
		}
		if slot := redisclient.Slot(string(text)); tags[slot] == "" {
			tags[slot] = string(text)
			missing--
		}
	}
	return tags
})

// openIndex finds out whether the server is a cluster. Every store of a server must come to the
// same result, since each index has only what is added under its name.
func (s *Store) openIndex(ctx context.Context) error {
	u := &s.unfinished
	u.name = s.o.Prefix + "unfinished"
	joiner, ok := s.client.(redisclient.Joiner)
	if !ok {
		return nil // a client of a single server
	}
	u.routed = !joiner.Joins()
	if _, tag, ok := strings.Cut(s.o.Prefix, "{"); ok {
		if strings.Index(tag, "}") <= 0 {
			return errors.New("redisstore: Prefix has a brace that begins no hash tag; write {name}, or leave it out")
		}
		return nil // all keys are in one slot
	}
	if u.perSlot = u.routed; u.perSlot {
		return nil
	}
	// A cluster with one node may have a client of a single server.
	other := u.slotIndex((redisclient.Slot(u.name) + 1) % redisclient.Slots)
	r := s.client.Eval(ctx, redisclient.Call{Script: indexProbe, Keys: []string{u.name, other}})
	refused, isRefusal := errors.AsType[redisclient.Error](r.Err)
	if isRefusal && refused.Code() == "CROSSSLOT" {
		u.perSlot, u.routed = true, true
		return nil
	}
	if r.Err != nil {
		return explainRefusal(r.Err)
	}
	return nil
}
