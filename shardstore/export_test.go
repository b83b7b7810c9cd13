package shardstore

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Step is one step of Change: it goes as far as it can without waiting, and says how long to wait;
// zero: it is done.
func Step(ctx context.Context, shards map[string]retrysafe.Store, names []string) (*Map, time.Duration, error) {
	return atlas(shards).step(ctx, sorted(names))
}

// Hasty ends a move without a look at who still goes by the map before, and at what the next shards
// lack.
func Hasty(ctx context.Context, shards map[string]retrysafe.Store, look bool) error {
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

// SetClock gives a process a clock of its own.
func SetClock(s *Store, clock func() time.Time) { s.clock = clock }

// MapKey is where a map is kept.
var MapKey = mapKey

// Dump is all that a store remembers.
func Dump(s *Store) string {
	text := fmt.Sprint(s.m.Number, s.raised)
	for _, name := range s.atlas.names() {
		text += fmt.Sprint(" ", name, s.looks[name].now.UnixMicro())
	}
	return text
}
