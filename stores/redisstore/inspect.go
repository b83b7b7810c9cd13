package redisstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// commandFunc sends one command to a server.
type commandFunc = redisnode.Do

// inspectPrimaries checks every primary before the store is used.
func (s *Store) inspectPrimaries(ctx context.Context) error {
	all := newClocks()
	asked, err := s.primaries.Inspect(ctx, s.o.AllowEviction, "the record of work that is done, and a duplicate would run it again", func(ctx context.Context, do commandFunc, node *redisnode.Node) error {
		if node.Policy == "" {
			s.o.Logger.Warn("redisstore: the server tells neither its configuration (CONFIG GET) nor its state (INFO); make sure that maxmemory-policy is noeviction and that it writes to disk")
		}
		s.warnOfDataLoss(node)
		s.checkPublish(ctx, do)
		all.askPrimary(ctx, do)
		return nil
	})
	if !asked {
		if err == nil {
			s.o.Logger.Warn("redisstore: this client cannot ask the server for its configuration; make sure that maxmemory-policy is noeviction and that it writes to disk")
		}
		return err
	}
	if err == nil {
		s.compareClocks(ctx, all)
	}
	return err
}

// checkPublish warns if the user may not publish: waiters in other processes then find out only by
// polling.
func (s *Store) checkPublish(ctx context.Context, do commandFunc) {
	var refused redisclient.Error
	if err := do(ctx, "PUBLISH", s.o.Prefix, "").Err; !s.o.Quiet && errors.As(err, &refused) && refused.Code() == "NOPERM" {
		s.o.Logger.Warn("redisstore: the user may not publish, so that those who wait in other processes hear of it late; allow the channels of the prefix: ACL SETUSER … &" + s.o.Prefix + "*")
	}
}

// warnOfDataLoss warns about possible data loss.
func (s *Store) warnOfDataLoss(node *redisnode.Node) {
	if node.AOF == "0" {
		s.o.Logger.Warn("redisstore: the server keeps no append-only file: if it crashes, what was done since its last snapshot may be run again; set appendonly yes")
	}
	switch {
	case node.Replicas == 0:
		s.o.Logger.Warn("redisstore: the server has no replica: while it is away, nothing runs")
	case node.Replicas > 0 && s.o.Replicas == 0:
		s.o.Logger.Warn("redisstore: wins are not confirmed by replicas: after a failover work that was done just before may be run again; set Replicas")
	}
}

var _ storeapi.Keeper = (*Store)(nil)

// Keeps implements [storeapi.Keeper]. It checks every primary. Confirmed writes can be lost if a
// primary evicts keys, if it has no append-only file, and if a failover or a crash can come before
// a write has reached a replica or the disk.
func (s *Store) Keeps(ctx context.Context) error {
	nodes, ok := s.client.(redisclient.Nodes)
	if !ok {
		return errors.New("redisstore: this client cannot ask the server whether it keeps what it confirms")
	}
	return nodes.EachPrimary(ctx, func(ctx context.Context, do commandFunc) error {
		node, err := redisnode.Look(ctx, do)
		if err != nil {
			return explainRefusal(err)
		}
		if node.Policy != "noeviction" {
			return errors.New("redisstore: the server drops keys for want of memory, or does not tell " +
				"(CONFIG GET); set maxmemory-policy noeviction")
		}
		if why := node.Forgets(s.primaries.Need()); why != "" {
			return errors.New("redisstore: " + why)
		}
		return nil
	})
}

var _ storeapi.Sharer = (*Store)(nil)

// Shared implements [storeapi.Sharer]. Other machines can reach the server.
func (*Store) Shared() bool { return true }
