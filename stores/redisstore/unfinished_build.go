package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// buildTime limits how long an index is built.
const buildTime = 12 * time.Hour

// buildIndex adds the records that were written before there was an index, and then marks it as
// complete. It does so in the background, and once at a time in this process. Until then lists
// scan.
func (s *Store) buildIndex(ctx context.Context, nodes redisclient.Nodes) {
	if !s.unfinished.building.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.unfinished.building.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTime)
		defer cancel()
		if err := s.fillIndex(ctx, nodes); err != nil {
			s.o.Logger.Warn("redisstore: the index of unfinished records is not complete, and lists of them scan; the next list tries again", "error", err)
		}
	}()
}

func (s *Store) fillIndex(ctx context.Context, nodes redisclient.Nodes) error {
	before, err := s.slotLayout(ctx, nodes)
	if err != nil {
		return err
	}
	err = s.visitNames(ctx, nodes, func(names []string) error {
		names = slices.DeleteFunc(names, func(name string) bool { return !matchesKey(&storeapi.ListRequest{}, name) })
		return s.firstError(redisnode.EvalMany(ctx, s.client, s.setCalls(names)))
	})
	if err != nil {
		return err
	}
	// SCAN can miss a record that moves to another server meanwhile.
	after, err := s.slotLayout(ctx, nodes)
	if err != nil {
		return err
	}
	if before != after {
		return errors.New("redisstore: slots of the cluster have moved")
	}
	for indexes := range slices.Chunk(s.unfinished.allIndexes(), 1024) {
		calls := make([]redisclient.Call, len(indexes))
		for i, name := range indexes {
			calls[i] = redisclient.Call{Script: unfinishedMark, Keys: []string{name}}
		}
		if err := s.firstError(redisnode.EvalMany(ctx, s.client, calls)); err != nil {
			return err
		}
	}
	return nil
}

// firstError returns the first error. A name that holds something else than a record is none.
func (s *Store) firstError(replies []redisclient.Reply) error {
	for _, r := range replies {
		refused, _ := errors.AsType[redisclient.Error](r.Err)
		if r.Err != nil && refused.Code() != "WRONGTYPE" {
			return explainRefusal(r.Err)
		}
	}
	return nil
}

// slotLayout returns which server of a cluster has which slots; empty if all keys are in one slot
// or on one server. It fails while a slot is being moved.
func (s *Store) slotLayout(ctx context.Context, nodes redisclient.Nodes) (string, error) {
	if !s.unfinished.routed {
		return "", nil
	}
	var all []string
	err := nodes.EachPrimary(ctx, func(ctx context.Context, do commandFunc) error {
		r := do(ctx, "CLUSTER", "NODES")
		if r.Err != nil {
			return explainRefusal(r.Err)
		}
		text, _ := r.Value.(string)
		for line := range strings.Lines(text) {
			// id, address, flags, primary, ping, pong, epoch, state, and the slots
			fields := strings.Fields(line)
			if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
				continue
			}
			slots := strings.Join(fields[8:], " ")
			if strings.Contains(slots, "[") {
				return fmt.Errorf("redisstore: slots of the cluster are moving: %s", slots)
			}
			all = append(all, fields[0]+" "+slots)
		}
		return nil
	})
	slices.Sort(all)
	return strings.Join(all, "\n"), err
}
