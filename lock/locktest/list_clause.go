package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/lock"
)

func listShowsHolders(e *env) error {
	lister, ok := e.a.(lock.Lister)
	if ok {
		_, err := lister.List(e.ctx, lock.ListRequest{Limit: 1})
		ok = !errors.Is(err, errors.ErrUnsupported)
	}
	if ok != e.Lists {
		return fmt.Errorf("Config says %v of whether the backend lists, and it is %v", e.Lists, ok)
	}
	if !ok {
		return nil
	}
	return errors.Join(listMatchesHolders(e, lister), listCountsWaiters(e, lister), listWithEndedContext(e, lister))
}

// listMatchesHolders compares a list with what is held, in pages of several sizes.
func listMatchesHolders(e *env, lister lock.Lister) error {
	base, fences := e.name, map[string]uint64{}
	var first lock.Request
	for i := range 25 {
		e.name = fmt.Sprintf("%s-%d \xff{%d}*", base, i, i%3)
		r := e.newRequest(longLease)
		if i == 0 {
			first = r
		}
		f, err := e.acquireFree(e.b, r)
		if err != nil {
			return err
		}
		fences[e.name] = uint64(f)
	}
	free := func(r lock.Request) error {
		if _, err := e.acquireFree(e.b, r); err != nil {
			return err
		}
		return e.b.Unlock(e.ctx, r)
	}
	e.name = base + "-free"
	if err := free(e.newRequest(longLease)); err != nil {
		return err
	}
	if e.Crash == nil {
		e.name = base + "-over"
		// On a slow machine the lease is over before the backend can tell its fence.
		if _, err := e.acquireFree(e.b, e.newRequest(e.Short)); err != nil && !errors.Is(err, lock.ErrHeld) {
			return err
		}
		<-time.After(e.Short + 50*time.Millisecond)
	}
	for _, limit := range []int{0, 1000, 7, 1} {
		held, err := listAll(e, lister, base+"-", limit)
		if err != nil {
			return err
		}
		if len(held) != len(fences) {
			return fmt.Errorf("pages of %d list %d locks, %d are held", limit, len(held), len(fences))
		}
		for name, h := range held {
			switch want, ok := fences[name]; {
			case !ok:
				return fmt.Errorf("%q is listed, and is not held", name)
			case uint64(h.Fence) != want:
				return fmt.Errorf("%q is listed with fence %d, its holder has %d", name, h.Fence, want)
			case h.Lease <= 0 || h.Lease > longLease+time.Second:
				return fmt.Errorf("%q is listed with %v of its lease left, it was granted for %v", name, h.Lease, longLease)
			}
		}
	}
	if err := e.b.Unlock(e.ctx, first); err != nil {
		return fmt.Errorf("Unlock of a lock that was listed: %w", err)
	}
	held, err := listAll(e, lister, base+"-", 0)
	if err == nil && len(held) != len(fences)-1 {
		err = fmt.Errorf("after an Unlock %d locks are listed, want %d", len(held), len(fences)-1)
	}
	e.name = base
	return err
}

var errListedTwice = errors.New("a lock is listed twice")

// listAll returns the locks whose names have a prefix, in pages.
func listAll(e *env, lister lock.Lister, prefix string, limit int) (map[string]lock.Held, error) {
	for {
		held, err := listOnce(e, lister, prefix, limit)
		if !e.ListsTwice || !errors.Is(err, errListedTwice) {
			return held, err
		}
		select {
		case <-e.ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func listOnce(e *env, lister lock.Lister, prefix string, limit int) (map[string]lock.Held, error) {
	held := map[string]lock.Held{}
	for r := (lock.ListRequest{Limit: limit}); ; {
		page, err := lister.List(e.ctx, r)
		if err != nil {
			return nil, fmt.Errorf("List in pages of %d: %w", limit, err)
		}
		if most := r.Size(); len(page.Locks) > most {
			return nil, fmt.Errorf("a page has %d locks, and at most %d were asked for", len(page.Locks), most)
		}
		for _, h := range page.Locks {
			if !strings.HasPrefix(h.Name, prefix) {
				continue // of another test
			}
			if _, twice := held[h.Name]; twice {
				return nil, fmt.Errorf("%w: %q, in pages of %d", errListedTwice, h.Name, limit)
			}
			held[h.Name] = h
		}
		if r.After = page.Next; page.Next == "" {
			return held, nil
		}
	}
}

// listCountsWaiters lets another caller wait, and wants it to be counted if the backend counts at
// all.
func listCountsWaiters(e *env, lister lock.Lister) error {
	e.name += "-waited"
	if _, err := e.acquireFree(e.a, e.newRequest(longLease)); err != nil {
		return err
	}
	waiting := func() (int, error) {
		held, err := listAll(e, lister, e.name, 0)
		return held[e.name].Waiting, err
	}
	n, err := waiting()
	if err != nil || n < 0 {
		return err
	}
	if n != 0 {
		return fmt.Errorf("%d wait for a lock that no one waits for", n)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	waited := make(chan struct{})
	waiter := e.newRequest(longLease)
	go func() {
		defer close(waited)
		for ctx.Err() == nil {
			_ = e.b.Wait(ctx, waiter) // it may return too early
		}
	}()
	for n == 0 && err == nil && e.ctx.Err() == nil {
		<-time.After(time.Millisecond)
		n, err = waiting()
	}
	cancel()
	<-waited
	if err == nil && n != 1 {
		err = fmt.Errorf("%d wait for a lock that one waits for", n)
	}
	return err
}

// listWithEndedContext lists for a caller that has left.
func listWithEndedContext(e *env, lister lock.Lister) error {
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := lister.List(ended, lock.ListRequest{}); err == nil {
		return errors.New("List with a context that has ended has no error")
	}
	return nil
}
