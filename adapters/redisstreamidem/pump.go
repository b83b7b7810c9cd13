package redisstreamidem

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

// pump is the state of the one goroutine that polls the server.
type pump struct {
	wait  time.Duration // until the next poll for new entries, while there are none
	next  time.Time     // time of that poll
	claim time.Time     // when to look for messages of silent consumers
	renew time.Time     // when to renew claims
	tidy  time.Time     // when to look for dead consumers
	keep  time.Time     // when the mark may be moved again
	// the id up to which all was settled when the mark was moved; empty: unknown
	mark   string
	cursor string // where the search for silent consumers continues
	unsure bool   // a reply was lost: the server may have given us unknown entries
	fails  int    // errors in a row
}

const (
	firstWait = 5 * time.Millisecond
	mostWait  = 250 * time.Millisecond
	mostFails = 5 * time.Second
	keepEvery = time.Second
	keepAgain = 10 * time.Minute // after the server has refused it
)

// run polls the server until the source is closed.
func (s *Source) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := true // no call of Receive waits
	for s.ctx.Err() == nil && s.queue.Err() == nil {
		now := time.Now()
		room := s.queue.Room(0, mostAhead)
		if idle && room > 0 {
			s.pump.next, s.pump.wait = now, firstWait // a call of Receive has come
		}
		idle = room == 0
		if s.pump.fails == 0 || !now.Before(s.pump.next) {
			if err := s.turn(now, room); err == nil {
				s.pump.fails = 0
			} else if s.ctx.Err() == nil {
				s.failed(err)
			}
		}
		timer.Reset(time.Until(s.nextTurn(room)))
		select {
		case <-timer.C:
		case <-s.queue.Woken():
		case <-s.ctx.Done():
			return
		}
	}
}

// turn does what is due. Renewals come first, so that others do not take over messages of this
// source.
func (s *Source) turn(now time.Time, room int) error {
	p := &s.pump
	if !now.Before(p.renew) {
		if err := s.renew(); err != nil {
			return err
		}
		p.renew = now.Add(s.o.Idle / 3)
	}
	if !now.Before(p.tidy) {
		if _, err := s.script(tidy, ownConsumers, strconv.FormatInt(10*s.o.Idle.Milliseconds(), 10)); err != nil {
			return err
		}
		p.tidy = now.Add(10 * s.o.Idle)
	}
	if p.unsure {
		if err := s.find(); err != nil {
			return err
		}
		p.unsure = false
	}
	if s.settled.Load() && !now.Before(p.keep) {
		p.keep = now.Add(keepEvery)
		err := s.keep(s.ctx)
		if mayNot(err) { // users of earlier versions may have fewer rights
			p.keep = now.Add(keepAgain)
			s.o.Logger.Warn("redisstreamidem: the user may not mark what is settled; if the group is lost, it begins at the oldest entry; allow the commands that begin with X", "stream", s.o.Stream, "group", s.o.Group, "error", err)
		} else if err != nil {
			return err
		}
	}
	for _, look := range []func(time.Time, int) (int, error){s.report, s.due, s.silent, s.fresh} {
		if room <= 0 {
			return nil
		}
		n, err := look(now, room)
		if err != nil {
			return err
		}
		room -= n
	}
	return nil
}

// nextTurn returns when something is due again, unless a call of Receive comes first.
func (s *Source) nextTurn(room int) time.Time {
	p := &s.pump
	if p.fails > 0 {
		return p.next
	}
	at := p.renew
	if s.settled.Load() && p.keep.Before(at) {
		at = p.keep
	}
	if room > 0 {
		for _, other := range []time.Time{p.next, p.claim} {
			if other.Before(at) {
				at = other
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, other := range s.later {
			if other.Before(at) {
				at = other
			}
		}
	}
	return at
}

// failed waits longer with each error in a row.
func (s *Source) failed(err error) {
	p := &s.pump
	p.unsure = true
	if noGroup(err) {
		err = s.setUp(s.ctx, false) // groups that were created later keep what is done
		if lost, ok := errors.AsType[*placeError](err); ok {
			s.queue.End(lost)
			return
		}
		if err == nil {
			p.next, p.renew = time.Now(), time.Now()
			return
		}
	}
	wait := min(firstWait<<min(p.fails, 12), mostFails)
	if p.fails++; p.fails > 3 {
		s.o.Logger.Warn("redisstreamidem: cannot ask for messages; it is tried again", "stream", s.o.Stream, "group", s.o.Group, "error", err)
	}
	p.next = time.Now().Add(wait)
}

// script runs a script on the stream for the group.
func (s *Source) script(script *redisclient.Script, args ...string) (any, error) {
	return s.eval(s.ctx, script, []string{s.o.Stream}, append([]string{s.o.Group}, args...))
}

// fresh takes new entries.
func (s *Source) fresh(now time.Time, room int) (int, error) {
	p := &s.pump
	if now.Before(p.next) {
		return 0, nil
	}
	got, err := entries(s.script(take, s.consumer, strconv.Itoa(room)))
	if err != nil {
		return 0, err
	}
	s.take(got)
	if len(got) > 0 {
		p.wait = firstWait
		p.next = time.Time{}
		return len(got), nil
	}
	p.next = time.Now().Add(p.wait)
	p.wait = min(2*p.wait, mostWait)
	return 0, nil
}

// silent takes over messages of consumers that were silent for Idle.
func (s *Source) silent(now time.Time, room int) (int, error) {
	p := &s.pump
	if now.Before(p.claim) {
		return 0, nil
	}
	reply, err := array(s.script(claim, s.consumer, strconv.FormatInt(s.o.Idle.Milliseconds(), 10), p.cursor, strconv.Itoa(room)))
	if err == nil && len(reply) != 3 {
		err = errStrange
	}
	if err != nil {
		return 0, err
	}
	got, lost, err := entriesAndLost(reply[1:], nil)
	if err != nil {
		return 0, err
	}
	p.cursor, _ = reply[0].(string)
	s.lose(lost)
	if s.take(got); p.cursor == "0-0" { // the end; otherwise the search continues at once
		p.claim = time.Now().Add(min(s.o.Idle/3, time.Second))
	}
	return len(got), nil
}

// due takes messages whose later try is due.
func (s *Source) due(now time.Time, room int) (int, error) {
	var ids []string
	s.mu.Lock()
	for id, at := range s.later {
		if !at.After(now) {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(ids, byAge)
	return s.again(ids[:min(room, len(ids))])
}

// again receives messages of this consumer once more. It forgets those that another consumer has by
// now.
func (s *Source) again(ids []string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	got, lost, err := entriesAndLost(array(s.script(again, append([]string{s.consumer}, ids...)...)))
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	for _, id := range ids {
		delete(s.later, id)
	}
	s.mu.Unlock()
	s.lose(lost)
	s.take(got)
	return len(got), nil
}

// find makes the messages ready that the server has given to this consumer in a lost reply.
func (s *Source) find() error {
	ids := s.ids()
	lost, err := texts(s.script(own, append([]string{s.consumer, strconv.Itoa(len(ids) + mostAhead)}, ids...)...))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range lost {
		s.later[id] = time.Time{} // it is due
	}
	return nil
}

// atOnce is how many entries one script handles: the server does nothing else meanwhile.
const atOnce = 1000

// renew renews the claims on all messages that this source holds, and forgets those that another
// consumer has by now. A message that the stream has lost is lost now if it waits for a later try.
// If it is held, its handler has all of it and goes on.
func (s *Source) renew() error {
	ids := s.ids()
	for part := range slices.Chunk(ids, atOnce) {
		both, err := array(s.script(renew, append([]string{s.consumer}, part...)...))
		if err == nil && len(both) != 2 {
			err = errStrange
		}
		if err != nil {
			return err
		}
		taken, err := texts(both[0], nil)
		if err != nil {
			return err
		}
		lost, err := texts(both[1], nil)
		if err != nil {
			return err
		}
		waiting, held := s.forget(taken, lost)
		s.lose(waiting)
		if held > 0 {
			s.o.Logger.Warn("redisstreamidem: the stream has lost messages that are in work; they are finished here, and lost if this process ends before",
				"stream", s.o.Stream, "group", s.o.Group, "messages", held)
		}
	}
	return nil
}

// forget ends the renewals of messages. Of the lost ones it returns those that wait here for a
// later try, and how many are held.
func (s *Source) forget(taken, lost []string) (waiting []string, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range taken {
		delete(s.later, id)
		delete(s.held, id)
	}
	for _, id := range lost {
		if d := s.held[id]; d != nil {
			held++
			d.lost.Store(true)
			delete(s.held, id)
		}
		if _, waits := s.later[id]; waits {
			delete(s.later, id)
			waiting = append(waiting, id)
		}
	}
	return waiting, held
}

// lose notes that messages are lost. It does not wait for those who receive.
func (s *Source) lose(ids []string) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	s.gone = append(s.gone, ids...)
	s.mu.Unlock()
	s.settledOne()
	s.queue.Wake()
}

// report makes reports of lost messages ready.
func (s *Source) report(_ time.Time, room int) (int, error) {
	s.mu.Lock()
	n := min(room, len(s.gone))
	ids := s.gone[:n]
	s.gone = s.gone[n:]
	s.mu.Unlock()
	for _, id := range ids {
		s.queue.Put(s.ctx, &lostDelivery{&mqidem.Message{Source: s.o.Stream, Headers: map[string][]byte{}, Published: published(id)}})
	}
	return n, nil
}

// mayNot reports whether an error says that the user may not run a command.
func mayNot(err error) bool {
	refused, ok := errors.AsType[redisclient.Error](err)
	return ok && refused.Code() == "NOPERM"
}

// settledOne notes that the mark can be moved.
func (s *Source) settledOne() {
	if s.settled.CompareAndSwap(false, true) {
		s.queue.Wake()
	}
}

// keep moves the mark. There is none while Options.Delete leaves only what is not settled in the
// stream.
func (s *Source) keep(ctx context.Context) error {
	if !s.settled.Swap(false) {
		return nil
	}
	id, err := text(s.eval(ctx, keep, []string{s.o.Stream}, []string{s.o.Group, flag(s.o.Delete)}))
	if err != nil {
		s.settled.Store(true)
		return err
	}
	s.pump.mark = id
	return nil
}

// ids returns the ids of all messages that this source holds or that wait here.
func (s *Source) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.held)+len(s.later))
	for id := range s.held {
		ids = append(ids, id)
	}
	for id := range s.later {
		ids = append(ids, id)
	}
	return ids
}

// take makes entries ready.
func (s *Source) take(got []entry) {
	for _, e := range got {
		d := newDelivery(s, e.id, e.message(s.o.Stream))
		s.mu.Lock()
		s.held[e.id] = d
		s.mu.Unlock()
		s.queue.Put(s.ctx, d)
	}
}
