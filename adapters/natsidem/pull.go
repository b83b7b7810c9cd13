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
	subscription   *nats.Subscription
	messages       chan *nats.Msg
	status         chan nats.Status
	requestSubject string // the subject for requests
	maxBatch       int
	req            pullRequest
	outstanding    int // requested, and not received yet
	misses         int // lookups in a row that found no consumer

	// requests in a row without a message or an answer that the request is open
	refusals int
	pausing  bool        // no requests are sent
	pause    *time.Timer // its end
}

// pullRequest is the body of a request to the server.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

const (
	requestTime      = 30 * time.Second // how long a request stays open
	requestHeartbeat = 5 * time.Second  // how often the server says that it is open
)

func (s *Source) startPulling(c *jetstream.ConsumerConfig) error {
	p := &s.puller
	p.messages = make(chan *nats.Msg, 4*mostAhead)
	p.pause = time.NewTimer(time.Hour)
	p.pause.Stop()
	p.applyLimits(c)
	p.requestSubject = apiPrefix(s.js) + "CONSUMER.MSG.NEXT." + s.o.Stream + "." + s.o.Consumer
	var err error
	if p.subscription, err = s.nc.ChanSubscribe(s.nc.NewInbox(), p.messages); err != nil {
		return fmt.Errorf("natsidem: cannot listen for messages: %w", err)
	}
	p.status = s.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	s.trust.init(s.nc)
	s.tasks.Go(s.pullMessages)
	return nil
}

// applyLimits applies the limits of the consumer to requests.
func (p *puller) applyLimits(c *jetstream.ConsumerConfig) {
	p.maxBatch = mostAhead
	if c.MaxRequestBatch > 0 {
		p.maxBatch = min(p.maxBatch, c.MaxRequestBatch)
	}
	p.req = pullRequest{Expires: requestTime, Heartbeat: requestHeartbeat}
	if c.MaxRequestExpires > 0 {
		p.req.Expires = min(p.req.Expires, c.MaxRequestExpires)
		p.req.Heartbeat = min(requestHeartbeat, p.req.Expires/3)
	}
}

// apiPrefix returns the prefix of subjects of the JetStream API.
func apiPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return o.APIPrefix + "."
	}
	return "$JS.API."
}

// pullMessages is the only goroutine that sends requests and reads messages.
func (s *Source) pullMessages() {
	p := &s.puller
	defer s.stopPulling()
	silence := time.NewTimer(2 * p.req.Heartbeat)
	defer silence.Stop()
	defer p.pause.Stop()
	for s.queue.Err() == nil {
		s.requestMessages()
		select {
		case m := <-p.messages:
			silence.Reset(2 * p.req.Heartbeat)
			s.handleMsg(m)
		case <-s.queue.Woken():
		case <-p.pause.C:
			p.pausing = false
		case st := <-p.status:
			s.handleStatus(st)
		case <-silence.C:
			silence.Reset(2 * p.req.Heartbeat)
			if s.nc.IsConnected() && (p.outstanding > 0 || !s.trust.isCurrent(s.nc)) {
				// the request is gone, for example because the server was restarted
				s.recheckConsumer()
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// requestMessages asks for messages that are needed and not yet requested. As long as some are
// ready or on their way, it does not ask for each message separately: the server limits the number
// of requests of all sources (MaxWaiting).
func (s *Source) requestMessages() {
	p := &s.puller
	wanted := s.queue.Room(p.outstanding, p.maxBatch)
	if wanted == 0 || p.pausing || !s.trust.isCurrent(s.nc) {
		return
	}
	p.req.Batch = wanted
	body, _ := json.Marshal(p.req) // numbers never fail
	if s.nc.PublishRequest(p.requestSubject, p.subscription.Subject, body) == nil {
		p.outstanding += wanted
	}
}

// handleMsg handles a message, or the server's status of a request.
func (s *Source) handleMsg(m *nats.Msg) {
	p := &s.puller
	if m.Reply != "" {
		// a message has a reply subject, whatever its headers; the status of a request has none
		p.outstanding, p.refusals = max(p.outstanding-1, 0), 0
		if meta, err := m.Metadata(); err == nil {
			s.makeReady(newDelivery(s, m.Reply, newMessage(m.Subject, m.Header, m.Data, meta.Timestamp, int(min(meta.NumDelivered, 1<<31-1)))))
		}
		return
	}
	status := m.Header.Get("Status")
	if status == "100" { // the request is open
		p.refusals = 0
		return
	}
	// The number of messages that the request will not deliver. Without a number: none remain.
	if pending, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		p.outstanding = max(p.outstanding-pending, 0)
	} else {
		p.outstanding = 0
	}
	if status == "408" || status == "404" { // it just expired
		p.refusals = 0
		return
	}
	s.recheckConsumer()
	s.pauseAfterRefusals(status, m.Header.Get("Description"))
}

// pauseAfterRefusals pauses before the next request after two refusals in a row, when the consumer
// was already looked up: the server would refuse the next request at once. Messages that arrive
// meanwhile are read.
func (s *Source) pauseAfterRefusals(status, why string) {
	p := &s.puller
	if p.refusals++; p.refusals < 2 {
		return
	}
	wait, _ := backoff.Backoff{MaxAttempts: p.refusals + 2, MinWait: 200 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, p.refusals, 100*time.Millisecond)
	p.pausing = true
	p.pause.Reset(wait)
	s.o.Logger.Warn("natsidem: the server refuses to be asked for messages; it is tried again after a pause; look at the limits of the consumer",
		"stream", s.o.Stream, "consumer", s.o.Consumer, "status", status, "says", why, "pause", wait)
}

// handleStatus handles a change of the connection's state.
func (s *Source) handleStatus(st nats.Status) {
	switch st {
	case nats.CONNECTED:
		s.recheckConsumer()
	case nats.CLOSED:
		s.queue.End(fmt.Errorf("natsidem: the connection was closed: %w", mqidem.ErrSourceClosed))
	default:
		s.trust.notifyWaiters() // calls that wait for an answer now wait for the next connection
	}
}

// missesMeanDeleted is how often in a row the consumer must be missing before it counts as deleted:
// a server that is starting may not know it yet.
const missesMeanDeleted = 4

// recheckConsumer checks that the consumer is still the one that was opened, and then asks for
// messages again. It takes as long as the server needs to answer.
func (s *Source) recheckConsumer() {
	p := &s.puller
	p.outstanding = 0
	for try := 1; s.ctx.Err() == nil; try++ {
		made := s.nc.Stats().Reconnects
		ctx, end := context.WithTimeout(s.ctx, s.o.Timeout)
		asking, answered := whileConnected(ctx, s.nc)
		info, err := s.consumer.Info(asking)
		answered()
		end()
		switch {
		case err == nil && info.Created.Equal(s.consumerCreated):
			p.misses = 0
			p.applyLimits(&info.Config) // they may have changed
			s.trust.markCurrent(made)
			return
		case err == nil:
			s.endDeleted()
			return
		case isMissing(err):
			if p.misses++; p.misses >= missesMeanDeleted {
				s.endDeleted()
				return
			}
		case s.nc.IsClosed():
			s.handleStatus(nats.CLOSED)
			return
		}
		s.o.Logger.Warn("natsidem: cannot ask for messages; it is tried again", "stream", s.o.Stream, "consumer", s.o.Consumer, "error", err)
		wait, again := backoff.Backoff{MaxAttempts: try + 2, MinWait: 200 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, try, 100*time.Millisecond)
		if !again || backoff.Pause(s.ctx, wait) != nil {
			return
		}
	}
}

// endDeleted ends the source: numbers in acks may be another message's by now.
func (s *Source) endDeleted() {
	s.trust.markLost()
	s.queue.End(errDeleted)
}

// stopPulling ends the subscription. Messages that the server had already sent go to handBack.
func (s *Source) stopPulling() {
	p := &s.puller
	s.nc.RemoveStatusListener(p.status)
	_ = p.subscription.Drain() // the server is notified, and messages on their way still arrive
	s.flush()
	for {
		select {
		case m := <-p.messages:
			if meta, err := m.Metadata(); err == nil && meta != nil {
				s.mu.Lock()
				s.held[&delivery{source: s, reply: m.Reply}] = struct{}{}
				s.mu.Unlock()
			}
		default:
			return
		}
	}
}
