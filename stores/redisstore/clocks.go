package redisstore

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
)

// clocks are the servers' clocks, each compared with this process. How far a clock is ahead of this
// process lies between two bounds: the server may have taken its time at the beginning of the round
// trip or at its end.
type clocks struct {
	began time.Time

	mu       sync.Mutex
	minLead  time.Duration // largest lower bound of a clock's lead over this process
	maxLead  time.Duration // smallest upper bound of a clock's lead
	replicas []string      // addresses
}

func newClocks() *clocks {
	return &clocks{began: time.Now(), minLead: math.MinInt64, maxLead: math.MaxInt64}
}

// defaultLease is the default of retrysafe.Policy. Shorter leases are checked when they occur.
const defaultLease = 30 * time.Second

// clockTime limits how long a replica may take to answer when a store is created.
const clockTime = time.Second

// askPrimary asks a primary for its time and its replicas.
func (c *clocks) askPrimary(ctx context.Context, do commandFunc) {
	_ = c.measureServer(ctx, do) // a user without the right was warned already
	role, _ := do(ctx, "ROLE").Value.([]any)
	if len(role) < 3 {
		return
	}
	replicas, _ := role[2].([]any)
	for _, r := range replicas {
		if at, ok := r.([]any); ok && len(at) >= 2 {
			host, _ := at[0].(string)
			port, _ := at[1].(string)
			c.replicas = append(c.replicas, net.JoinHostPort(host, port))
		}
	}
}

// measureServer asks a server for its time several times: the fastest reply is the most precise.
func (c *clocks) measureServer(ctx context.Context, do commandFunc) error {
	early, late := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	for range 3 {
		before := time.Since(c.began)
		r := do(ctx, "TIME")
		after := time.Since(c.began)
		if r.Err != nil {
			return r.Err
		}
		at, ok := serverTime(r.Value)
		if !ok {
			return errors.New("redisstore: TIME was not answered with a time")
		}
		// without the monotonic clock, which the server does not have
		ahead := at.Sub(c.began.Round(0))
		early, late = max(early, ahead-after), min(late, ahead-before)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minLead, c.maxLead = max(c.minLead, early), min(c.maxLead, late)
	return nil
}

func serverTime(v any) (time.Time, bool) {
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return time.Time{}, false
	}
	var n [2]int64
	for i := range n {
		text, _ := pair[i].(string)
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return time.Time{}, false
		}
	}
	return time.Unix(n[0], n[1]*1000), true
}

// compareClocks also asks the replicas, concurrently, and stores by how much the clocks certainly
// differ.
func (s *Store) compareClocks(ctx context.Context, c *clocks) {
	dialer, ok := s.client.(redisclient.Dialer)
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	unasked := make(chan string, len(c.replicas))
	var all sync.WaitGroup
	for _, addr := range c.replicas {
		all.Go(func() {
			if !ok || dialer.At(ctx, addr, func(do commandFunc) error { return c.measureServer(ctx, do) }) != nil {
				unasked <- addr
			}
		})
	}
	all.Wait()
	if n := len(unasked); n > 0 {
		s.o.Logger.Warn("redisstore: replicas could not be asked for their clocks; make sure that all servers have the same time, since leases go by that of the one that is promoted",
			"replicas", n, "one", <-unasked)
	}
	if c.minLead != math.MinInt64 {
		s.clockDifference = max(0, c.minLead-c.maxLead)
	}
	s.warnOfClocks(defaultLease)
}

// warnOfClocks warns once if the clocks differ by more than a tenth of a lease.
func (s *Store) warnOfClocks(lease time.Duration) {
	if s.clockDifference <= lease/10 || s.warnedOfClocks.Load() || !s.warnedOfClocks.CompareAndSwap(false, true) {
		return
	}
	s.o.Logger.Warn("redisstore: the clocks of the servers differ by more than a tenth of a lease: after a failover leases and answers may end early, so that work which still runs "+
		"is in doubt or overtaken, or late, so that keys stay in progress; set the clocks right. Fences still grow as long as their record lives",
		"difference", s.clockDifference.Round(time.Millisecond), "lease", lease)
}
