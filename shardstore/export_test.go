package shardstore

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Step is one step of Change: it continues as far as possible without waiting, and returns how long
// to wait; zero: the change is done.
func Step(ctx context.Context, shards map[string]storeapi.Store, names []string) (*Map, time.Duration, error) {
	return atlas(shards).step(ctx, sorted(names))
}

// Hasty ends a move without checking whether a process still uses the map before, or whether the
// next shards lack something.
func Hasty(ctx context.Context, shards map[string]storeapi.Store, look bool) error {
	a := atlas(shards)
	m, _, _, err := a.newest(ctx)
	if err != nil || !m.Moving() {
		return err
	}
	if look {
		_, _, err = a.end(ctx, m)
	} else {
		_, _, err = a.settle(ctx, m, m.Names, 0)
	}
	return err
}

// SetClock sets the clock of a process.
func SetClock(s *Store, clock func() time.Time) { s.clock = clock }

// MapKey is the key of a map's record.
var MapKey = mapKey

// Dump returns the whole state of a store.
func Dump(s *Store) string {
	text := fmt.Sprint(s.m.Number, s.raised)
	for _, name := range s.atlas.names() {
		text += fmt.Sprint(" ", name, s.looks[name].now.UnixMicro())
	}
	return text
}

// Clean removes what the move before m has left.
func Clean(ctx context.Context, shards map[string]storeapi.Store, m *Map) error {
	return atlas(shards).clean(ctx, m)
}
