package natsidem

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/mqidem"
)

// puller asks the server for as many messages as are needed. The client library's own pulls drop
// messages that arrive while they are being ended, so that the server redelivers them only after
// AckWait. They also hold messages without reporting progress.
type puller struct {
	sub    *nats.Subscription
	in     chan *nats.Msg
	status chan nats.Status
	next   string // the subject for requests
	most   int
	ask    request
	left   int // requested, and not received yet
	misses int // lookups in a row that found no consumer

	// requests in a row without a message or an answer that the request is open
	refused int
	pausing bool        // no requests are sent
	pause   *time.Timer // its end
}

// request is the body of a request to the server.
type request struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

const (
	askFor    = 30 * time.Second // how long a request stays open
	heartbeat = 5 * time.Second  // how often the server says that it is open
)

func (s *Source) startPulling(c *jetstream.ConsumerConfig) error {
	p := &s.puller
	p.in = make(chan *nats.Msg, 4*mostAhead)
	p.pause = time.NewTimer(time.Hour)
	p.pause.Stop()
	p.limit(c)
	p.next = prefix(s.js) + "CONSUMER.MSG.NEXT." + s.o.Stream + "." + s.o.Consumer
	var err error
	if p.sub, err = s.nc.ChanSubscribe(s.nc.NewInbox(), p.in); err != nil {
		return fmt.Errorf("natsidem: cannot listen for messages: %w", err)
	}
	p.status = s.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	s.conn.init(s.nc)
	s.tasks.Go(s.pull)
	return nil
}

// limit applies the limits of the consumer to requests.
func (p *puller) limit(c *jetstream.ConsumerConfig) {
	p.most = mostAhead
	if c.MaxRequestBatch > 0 {
		p.most = min(p.most, c.MaxRequestBatch)
	}
	p.ask = request{Expires: askFor, Heartbeat: heartbeat}
	if c.MaxRequestExpires > 0 {
		p.ask.Expires = min(p.ask.Expires, c.MaxRequestExpires)
		p.ask.Heartbeat = min(heartbeat, p.ask.Expires/3)
	}
}

// prefix returns the prefix of subjects of the JetStream API.
func prefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return o.APIPrefix + "."
	}
	return "$JS.API."
}

// pull is the only goroutine that sends requests and reads messages.
func (s *Source) pull() {
	p := &s.puller
	defer s.stopPulling()
	silence := time.NewTimer(2 * p.ask.Heartbeat)
	defer silence.Stop()
	defer p.pause.Stop()
	for s.queue.Err() == nil {
		s.request()
		select {
		case m := <-p.in:
			silence.Reset(2 * p.ask.Heartbeat)
			s.read(m)
		case <-s.queue.Woken():
		case <-p.pause.C:
			p.pausing = false
		case st := <-p.status:
			s.connection(st)
		case <-silence.C:
			silence.Reset(2 * p.ask.Heartbeat)
			if s.nc.IsConnected() && (p.left > 0 || !s.conn.sure(s.nc)) {
				// the request is gone, for example because the server was restarted
				s.look()
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// request asks for messages that are needed and not yet requested. As long as some are ready or on
// their way, it does not ask for each message separately: the server limits the number of requests
// of all sources (MaxWaiting).
func (s *Source) request() {
	p := &s.puller
	wanted := s.queue.Room(p.left, p.most)
	if wanted == 0 || p.pausing || !s.conn.sure(s.nc) {
		return
	}
	p.ask.Batch = wanted
	body, _ := json.Marshal(p.ask) // numbers never fail
	if s.nc.PublishRequest(p.next, p.sub.Subject, body) == nil {
		p.left += wanted
	}
}

// read handles a message, or the server's status of a request.
func (s *Source) read(m *nats.Msg) {
	p := &s.puller
	if m.Reply != "" {
		// a message has a reply subject, whatever its headers; the status of a request has none
		p.left, p.refused = max(p.left-1, 0), 0
		if meta, err := m.Metadata(); err == nil {
			s.take(newDelivery(s, m.Reply, message(m.Subject, m.Header, m.Data, meta.Timestamp, int(min(meta.NumDelivered, 1<<31-1)))))
		}
		return
	}
	status := m.Header.Get("Status")
	if status == "100" { // the request is open
		p.refused = 0
		return
	}
	// The number of messages that the request will not deliver. Without a number: none remain.
	if pending, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		p.left = max(p.left-pending, 0)
	} else {
		p.left = 0
	}
	if status == "408" || status == "404" { // it just expired
		p.refused = 0
		return
	}
	s.look()
	s.refuse(status, m.Header.Get("Description"))
}

// refuse pauses before the next request after two refusals in a row, when the consumer was already
// looked up: the server would refuse the next request at once. Messages that arrive meanwhile are
// read.
func (s *Source) refuse(status, why string) {
	p := &s.puller
	if p.refused++; p.refused < 2 {
		return
	}
	wait, _ := backoff.Backoff{MaxAttempts: p.refused + 2, MinWait: 200 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, p.refused, 100*time.Millisecond)
	p.pausing = true
	p.pause.Reset(wait)
	s.o.Logger.Warn("natsidem: the server refuses to be asked for messages; it is tried again after a pause; look at the limits of the consumer",
		"stream", s.o.Stream, "consumer", s.o.Consumer, "status", status, "says", why, "pause", wait)
}

// connection handles a change of the connection's state.
func (s *Source) connection(st nats.Status) {
	switch st {
	case nats.CONNECTED:
		s.look()
	case nats.CLOSED:
		s.queue.End(fmt.Errorf("natsidem: the connection was closed: %w", mqidem.ErrSourceClosed))
	default:
		s.conn.tell() // calls that wait for an answer now wait for the next connection
	}
}

// missesMean is how often in a row the consumer must be missing before it counts as deleted: a
// server that is starting may not know it yet.
const missesMean = 4

// look checks that the consumer is still the one that was opened, and then asks for messages again.
// It takes as long as the server needs to answer.
func (s *Source) look() {
	p := &s.puller
	p.left = 0
	for try := 1; s.ctx.Err() == nil; try++ {
		made := s.nc.Stats().Reconnects
		ctx, end := context.WithTimeout(s.ctx, s.o.Timeout)
		asking, answered := whileConnected(ctx, s.nc)
		info, err := s.cons.Info(asking)
		answered()
		end()
		switch {
		case err == nil && info.Created.Equal(s.born):
			p.misses = 0
			p.limit(&info.Config) // they may have changed
			s.conn.trust(made)
			return
		case err == nil:
			s.lose()
			return
		case gone(err):
			if p.misses++; p.misses >= missesMean {
				s.lose()
				return
			}
		case s.nc.IsClosed():
			s.connection(nats.CLOSED)
			return
		}
		s.o.Logger.Warn("natsidem: cannot ask for messages; it is tried again", "stream", s.o.Stream, "consumer", s.o.Consumer, "error", err)
		wait, again := backoff.Backoff{MaxAttempts: try + 2, MinWait: 200 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, try, 100*time.Millisecond)
		if !again || backoff.Pause(s.ctx, wait) != nil {
			return
		}
	}
}

// lose ends the source: numbers in acks may be another message's by now.
func (s *Source) lose() {
	s.conn.lose()
	s.queue.End(errDeleted)
}

// stopPulling ends the subscription. Messages that the server had already sent go to handBack.
func (s *Source) stopPulling() {
	p := &s.puller
	s.nc.RemoveStatusListener(p.status)
	_ = p.sub.Drain() // the server is notified, and messages on their way still arrive
	s.flush()
	for {
		select {
		case m := <-p.in:
			if meta, err := m.Metadata(); err == nil && meta != nil {
				s.mu.Lock()
				s.held[&delivery{s: s, reply: m.Reply}] = struct{}{}
				s.mu.Unlock()
			}
		default:
			return
		}
	}
}
