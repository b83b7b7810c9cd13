package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

// inspect looks at every primary before anything is kept there.
func (s *Store) inspect(ctx context.Context) error {
	nodes, ok := s.client.(redisclient.Nodes)
	if !ok {
		if s.o.Replicas == All {
			return errors.New("redisstore: Replicas All needs a client that can ask the primaries how many they have; give their number")
		}
		s.o.Logger.Warn("redisstore: this client cannot ask the server for its configuration; make sure that maxmemory-policy is noeviction and that it writes to disk")
		return nil
	}
	all := newClocks()
	err := nodes.EachPrimary(ctx, func(ctx context.Context, do doing) error {
		policy, err := setting(ctx, do, "maxmemory-policy")
		switch {
		case err != nil && !forbidden(err):
			return refusal(err)
		case err != nil:
			s.o.Logger.Warn("redisstore: the server does not tell its configuration; make sure that maxmemory-policy is noeviction and that it writes to disk")
		case policy != "noeviction" && !s.o.AllowEviction:
			return fmt.Errorf("redisstore: the server's maxmemory-policy is %s: it may drop the record of work that is done, and a repeat would run it again; set noeviction, or AllowEviction if that is no harm", policy)
		}
		if err := s.info(ctx, do); err != nil {
			return err
		}
		all.primary(ctx, do)
		return nil
	})
	if err == nil {
		s.compare(ctx, all)
	}
	return err
}

// doing sends one command to a server.
type doing = func(ctx context.Context, cmd ...string) redisclient.Reply

// info warns of what can be lost, and counts replicas.
func (s *Store) info(ctx context.Context, do doing) error {
	fields := map[string]string{}
	for _, section := range []string{"server", "persistence", "replication"} {
		r := do(ctx, "INFO", section)
		if r.Err != nil && forbidden(r.Err) {
			return nil
		}
		if r.Err != nil {
			return refusal(r.Err)
		}
		text, _ := r.Value.(string)
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				fields[name] = value
			}
		}
	}
	if major, _, _ := strings.Cut(fields["redis_version"], "."); major != "" {
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			return fmt.Errorf("redisstore: the server is version %s; 7 or newer is needed", fields["redis_version"])
		}
	}
	replicas, _ := strconv.Atoi(fields["connected_slaves"])
	for {
		seen := s.replicas.Load()
		if int64(replicas) <= seen || s.replicas.CompareAndSwap(seen, int64(replicas)) {
			break
		}
	}
	if s.o.Replicas == All && replicas == 0 {
		return errors.New("redisstore: Replicas All, and a primary has no replica")
	}
	if fields["aof_enabled"] == "0" {
		s.o.Logger.Warn("redisstore: the server keeps no append-only file: if it crashes, what was done since its last snapshot may be run again; set appendonly yes")
	}
	if replicas == 0 {
		s.o.Logger.Warn("redisstore: the server has no replica: while it is away, nothing runs")
	} else if s.o.Replicas == 0 {
		s.o.Logger.Warn("redisstore: wins are not confirmed by replicas: after a failover work that was done just before may be run again; set Replicas")
	}
	return nil
}

// setting reads one.
func setting(ctx context.Context, do doing, name string) (string, error) {
	r := do(ctx, "CONFIG", "GET", name)
	if r.Err != nil {
		return "", r.Err
	}
	if pair, ok := r.Value.([]any); ok && len(pair) == 2 {
		if value, ok := pair[1].(string); ok {
			return value, nil
		}
	}
	return "", redisclient.Error("ERR no such setting")
}

// forbidden tells a server that does not let us ask from one that is in trouble.
func forbidden(err error) bool {
	var e redisclient.Error
	return errors.As(err, &e) && (e.Code() == "NOPERM" || e.Code() == "ERR")
}
