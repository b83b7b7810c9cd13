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

// poller is the state of the one goroutine that polls the server.
type poller struct {
	pollWait    time.Duration // until the next poll for new entries, while there are none
	nextPoll    time.Time     // time of that poll
	nextClaim   time.Time     // when to look for messages of silent consumers
	nextRenewal time.Time     // when to renew claims
	nextTidy    time.Time     // when to look for dead consumers
	nextMark    time.Time     // when the mark may be moved again
	// the id up to which all was settled when the mark was moved; empty: unknown
	mark      string
	cursor    string // where the search for silent consumers continues
	replyLost bool   // a reply was lost: the server may have given us unknown entries
	failures  int    // errors in a row
}

const (
	firstPollWait      = 5 * time.Millisecond
	longestPollWait    = 250 * time.Millisecond
	longestFailureWait = 5 * time.Second
	markInterval       = time.Second
	markRetryInterval  = 10 * time.Minute // after the server has refused it
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
			s.poller.nextPoll, s.poller.pollWait = now, firstPollWait // a call of Receive has come
		}
		idle = room == 0
		if s.poller.failures == 0 || !now.Before(s.poller.nextPoll) {
			if err := s.doDueWork(now, room); err == nil {
				s.poller.failures = 0
			} else if s.ctx.Err() == nil {
				s.handleFailure(err)
			}
		}
		timer.Reset(time.Until(s.nextDueTime(room)))
		select {
		case <-timer.C:
		case <-s.queue.Woken():
		case <-s.ctx.Done():
			return
		}
	}
}

// doDueWork does what is due. Renewals come first, so that others do not take over messages of this
// source.
func (s *Source) doDueWork(now time.Time, room int) error {
	p := &s.poller
	if !now.Before(p.nextRenewal) {
		if err := s.renewClaims(); err != nil {
			return err
		}
		p.nextRenewal = now.Add(s.o.Idle / 3)
	}
	if !now.Before(p.nextTidy) {
		if _, err := s.runScript(tidyScript, ownConsumers, strconv.FormatInt(10*s.o.Idle.Milliseconds(), 10)); err != nil {
			return err
		}
		p.nextTidy = now.Add(10 * s.o.Idle)
	}
	if p.replyLost {
		if err := s.findUnknown(); err != nil {
			return err
		}
		p.replyLost = false
	}
	if s.settled.Load() && !now.Before(p.nextMark) {
		p.nextMark = now.Add(markInterval)
		err := s.moveMark(s.ctx)
		if isNotPermitted(err) { // users of earlier versions may have fewer rights
			p.nextMark = now.Add(markRetryInterval)
			s.o.Logger.Warn("redisstreamidem: the user may not mark what is settled; if the group is lost, it begins at the oldest entry; allow the commands that begin with X", "stream", s.o.Stream, "group", s.o.Group, "error", err)
		} else if err != nil {
			return err
		}
	}
	for _, look := range []func(time.Time, int) (int, error){s.reportLost, s.takeDue, s.takeFromSilent, s.takeNew} {
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

// nextDueTime returns when something is due again, unless a call of Receive comes first.
func (s *Source) nextDueTime(room int) time.Time {
	p := &s.poller
	if p.failures > 0 {
		return p.nextPoll
	}
	at := p.nextRenewal
	if s.settled.Load() && p.nextMark.Before(at) {
		at = p.nextMark
	}
	if room > 0 {
		for _, other := range []time.Time{p.nextPoll, p.nextClaim} {
			if other.Before(at) {
				at = other
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, other := range s.laterTries {
			if other.Before(at) {
				at = other
			}
		}
	}
	return at
}

// handleFailure waits longer with each error in a row.
func (s *Source) handleFailure(err error) {
	p := &s.poller
	p.replyLost = true
	if isNoGroup(err) {
		err = s.setUpGroup(s.ctx, false) // groups that were created later keep what is done
		if lost, ok := errors.AsType[*placeError](err); ok {
			s.queue.End(lost)
			return
		}
		if err == nil {
			p.nextPoll, p.nextRenewal = time.Now(), time.Now()
			return
		}
	}
	wait := min(firstPollWait<<min(p.failures, 12), longestFailureWait)
	if p.failures++; p.failures > 3 {
		s.o.Logger.Warn("redisstreamidem: cannot ask for messages; it is tried again", "stream", s.o.Stream, "group", s.o.Group, "error", err)
	}
	p.nextPoll = time.Now().Add(wait)
}

// runScript runs a script on the stream for the group.
func (s *Source) runScript(script *redisclient.Script, args ...string) (any, error) {
	return s.eval(s.ctx, script, []string{s.o.Stream}, append([]string{s.o.Group}, args...))
}

// takeNew takes new entries.
func (s *Source) takeNew(now time.Time, room int) (int, error) {
	p := &s.poller
	if now.Before(p.nextPoll) {
		return 0, nil
	}
	got, err := parseEntries(s.runScript(takeScript, s.consumer, strconv.Itoa(room)))
	if err != nil {
		return 0, err
	}
	s.makeReady(got)
	if len(got) > 0 {
		p.pollWait = firstPollWait
		p.nextPoll = time.Time{}
		return len(got), nil
	}
	p.nextPoll = time.Now().Add(p.pollWait)
	p.pollWait = min(2*p.pollWait, longestPollWait)
	return 0, nil
}

// takeFromSilent takes over messages of consumers that were silent for Idle.
func (s *Source) takeFromSilent(now time.Time, room int) (int, error) {
	p := &s.poller
	if now.Before(p.nextClaim) {
		return 0, nil
	}
	reply, err := parseArray(s.runScript(claimScript, s.consumer, strconv.FormatInt(s.o.Idle.Milliseconds(), 10), p.cursor, strconv.Itoa(room)))
	if err == nil && len(reply) != 3 {
		err = errUnexpectedReply
	}
	if err != nil {
		return 0, err
	}
	got, lost, err := parseEntriesAndLost(reply[1:], nil)
	if err != nil {
		return 0, err
	}
	p.cursor, _ = reply[0].(string)
	s.noteLost(lost)
	if s.makeReady(got); p.cursor == "0-0" { // the end; otherwise the search continues at once
		p.nextClaim = time.Now().Add(min(s.o.Idle/3, time.Second))
	}
	return len(got), nil
}

// takeDue takes messages whose later try is due.
func (s *Source) takeDue(now time.Time, room int) (int, error) {
	var ids []string
	s.mu.Lock()
	for id, at := range s.laterTries {
		if !at.After(now) {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(ids, compareIDs)
	return s.readAgain(ids[:min(room, len(ids))])
}

// readAgain receives messages of this consumer once more. It forgets those that another consumer
// has by now.
func (s *Source) readAgain(ids []string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	got, lost, err := parseEntriesAndLost(parseArray(s.runScript(rereadScript, append([]string{s.consumer}, ids...)...)))
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	for _, id := range ids {
		delete(s.laterTries, id)
	}
	s.mu.Unlock()
	s.noteLost(lost)
	s.makeReady(got)
	return len(got), nil
}

// findUnknown makes the messages ready that the server has given to this consumer in a lost reply.
func (s *Source) findUnknown() error {
	ids := s.heldIDs()
	lost, err := parseTexts(s.runScript(findUnknownScript, append([]string{s.consumer, strconv.Itoa(len(ids) + mostAhead)}, ids...)...))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range lost {
		s.laterTries[id] = time.Time{} // it is due
	}
	return nil
}

// maxPerScript is how many entries one script handles: the server does nothing else meanwhile.
const maxPerScript = 1000

// renewClaims renews the claims on all messages that this source holds, and forgets those that
// another consumer has by now. A message that the stream has lost is lost now if it waits for a
// later try. If it is held, its handler has all of it and goes on.
func (s *Source) renewClaims() error {
	ids := s.heldIDs()
	for part := range slices.Chunk(ids, maxPerScript) {
		both, err := parseArray(s.runScript(renewScript, append([]string{s.consumer}, part...)...))
		if err == nil && len(both) != 2 {
			err = errUnexpectedReply
		}
		if err != nil {
			return err
		}
		taken, err := parseTexts(both[0], nil)
		if err != nil {
			return err
		}
		lost, err := parseTexts(both[1], nil)
		if err != nil {
			return err
		}
		waiting, held := s.stopRenewals(taken, lost)
		s.noteLost(waiting)
		if held > 0 {
			s.o.Logger.Warn("redisstreamidem: the stream has lost messages that are in work; they are finished here, and lost if this process ends before",
				"stream", s.o.Stream, "group", s.o.Group, "messages", held)
		}
	}
	return nil
}

// stopRenewals ends the renewals of messages. Of the lost ones it returns those that wait here for
// a later try, and how many are held.
func (s *Source) stopRenewals(taken, lost []string) (waiting []string, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range taken {
		delete(s.laterTries, id)
		delete(s.held, id)
	}
	for _, id := range lost {
		if d := s.held[id]; d != nil {
			held++
			d.lost.Store(true)
			delete(s.held, id)
		}
		if _, waits := s.laterTries[id]; waits {
			delete(s.laterTries, id)
			waiting = append(waiting, id)
		}
	}
	return waiting, held
}

// noteLost notes that messages are lost. It does not wait for those who receive.
func (s *Source) noteLost(ids []string) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	s.lostIDs = append(s.lostIDs, ids...)
	s.mu.Unlock()
	s.noteSettled()
	s.queue.Wake()
}

// reportLost makes reports of lost messages ready.
func (s *Source) reportLost(_ time.Time, room int) (int, error) {
	s.mu.Lock()
	n := min(room, len(s.lostIDs))
	ids := s.lostIDs[:n]
	s.lostIDs = s.lostIDs[n:]
	s.mu.Unlock()
	for _, id := range ids {
		s.queue.Put(s.ctx, &lostDelivery{&mqidem.Message{Source: s.o.Stream, Headers: map[string][]byte{}, Published: idTime(id)}})
	}
	return n, nil
}

// isNotPermitted reports whether an error says that the user may not run a command.
func isNotPermitted(err error) bool {
	refused, ok := errors.AsType[redisclient.Error](err)
	return ok && refused.Code() == "NOPERM"
}

// noteSettled notes that the mark can be moved.
func (s *Source) noteSettled() {
	if s.settled.CompareAndSwap(false, true) {
		s.queue.Wake()
	}
}

// moveMark moves the mark. There is none while Options.Delete leaves only what is not settled in
// the stream.
func (s *Source) moveMark(ctx context.Context) error {
	if !s.settled.Swap(false) {
		return nil
	}
	id, err := parseText(s.eval(ctx, moveMarkScript, []string{s.o.Stream}, []string{s.o.Group, flagArg(s.o.Delete)}))
	if err != nil {
		s.settled.Store(true)
		return err
	}
	s.poller.mark = id
	return nil
}

// heldIDs returns the ids of all messages that this source holds or that wait here.
func (s *Source) heldIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.held)+len(s.laterTries))
	for id := range s.held {
		ids = append(ids, id)
	}
	for id := range s.laterTries {
		ids = append(ids, id)
	}
	return ids
}

// makeReady makes entries ready.
func (s *Source) makeReady(got []entry) {
	for _, e := range got {
		d := newDelivery(s, e.id, e.message(s.o.Stream))
		s.mu.Lock()
		s.held[e.id] = d
		s.mu.Unlock()
		s.queue.Put(s.ctx, d)
	}
}
