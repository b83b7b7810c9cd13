package natsidem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
)

// Source is a mqidem.Source and a mqidem.Holder on a durable pull consumer. It can be used
// concurrently.
type Source struct {
	js              jetstream.JetStream
	nc              *nats.Conn
	o               Options
	deadLetters     *DeadLetters
	consumer        jetstream.Consumer
	consumerCreated time.Time // of the consumer: a later one of the same name is another consumer
	ackWait         time.Duration

	queue  *mqidem.Prefetch
	puller puller
	trust  consumerTrust

	mu   sync.Mutex
	held map[*delivery]struct{} // for which the source reports progress

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once
}

var (
	_ mqidem.Source  = (*Source)(nil)
	_ mqidem.Holder  = (*Source)(nil)
	_ mqidem.Batched = (*Source)(nil)
)

// Open returns a source on an existing consumer; see [Create]. It returns an error if the consumer
// does not fit, or if the stream of dead letters is missing. The caller keeps the connection, which
// must never stop reconnecting: nats.MaxReconnects(-1). Close the source at the end.
func Open(ctx context.Context, js jetstream.JetStream, options *Options) (*Source, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	deadLetters, err := OpenDeadLetters(ctx, js, &o)
	if err != nil {
		return nil, err
	}
	look, end := context.WithTimeout(ctx, o.Timeout)
	defer end()
	cons, err := js.Consumer(look, o.Stream, o.Consumer)
	if err != nil {
		return nil, fmt.Errorf("natsidem: cannot open the consumer %s of the stream %s; Create makes it: %w", o.Consumer, o.Stream, err)
	}
	info := cons.CachedInfo()
	if err := consumerFault(&info.Config); err != nil {
		return nil, fmt.Errorf("natsidem: the consumer %s of the stream %s does not fit: %w", o.Consumer, o.Stream, err)
	}
	s := &Source{
		js: js, nc: js.Conn(), o: o, deadLetters: deadLetters, consumer: cons, consumerCreated: info.Created, ackWait: info.Config.AckWait,
		queue: mqidem.NewPrefetch(o.Prefetch, mostAhead), held: map[*delivery]struct{}{},
	}
	for _, wait := range info.Config.BackOff {
		s.ackWait = min(s.ackWait, wait)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.startPulling(&info.Config); err != nil {
		s.cancel()
		return nil, err
	}
	s.tasks.Go(s.reportProgress)
	return s, nil
}

// Ahead implements [mqidem.Batched].
func (s *Source) Ahead(n int) { s.queue.Ahead(n) }

// Receive implements mqidem.Source. Its error is final if the consumer was deleted or the
// connection was closed.
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) { return s.queue.Receive(ctx) }

// HoldsFor implements mqidem.Holder: the stream's MaxAge. Without one it returns retrysafe.Forever,
// or zero if the stream removes messages that its consumers have acked (WorkQueuePolicy,
// InterestPolicy). It does not know what MaxMsgs and MaxBytes remove earlier.
func (s *Source) HoldsFor(ctx context.Context) (time.Duration, error) {
	ctx, end := context.WithTimeout(ctx, s.o.Timeout)
	defer end()
	stream, err := s.js.Stream(ctx, s.o.Stream)
	if err != nil {
		return 0, fmt.Errorf("natsidem: cannot ask how long the stream keeps messages; try again: %w", err)
	}
	config := stream.CachedInfo().Config
	if config.MaxAge == 0 && config.Retention == jetstream.LimitsPolicy {
		return retrysafe.Forever, nil
	}
	return config.MaxAge, nil
}

// Close ends all that the source started, and hands back unsettled messages: the server redelivers
// them at once to any consumer. Close returns when the server knows or after the timeout, and never
// returns an error. It can be called again. Settling a message after Close returns ErrStale.
func (s *Source) Close() error {
	s.queue.End(mqidem.ErrSourceClosed)
	s.once.Do(func() {
		s.cancel()
		s.tasks.Wait()
		s.handBack()
	})
	return nil
}

// reportProgress reports progress to the server for all held messages, three times in the time
// after which it would give them to another consumer.
func (s *Source) reportProgress() {
	beat := time.NewTicker(max(s.ackWait/3, time.Millisecond))
	defer beat.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-beat.C:
		}
		s.mu.Lock() // progress that follows a Retry would undo its delay
		for d := range s.held {
			_ = s.nc.Publish(d.reply, progressAnswer)
		}
		s.mu.Unlock()
	}
}

// makeReady makes a message ready. If the source is being closed, it goes back with all held
// messages.
func (s *Source) makeReady(d *delivery) {
	s.mu.Lock()
	s.held[d] = struct{}{}
	s.mu.Unlock()
	s.queue.Put(s.ctx, d)
}

// stopProgress ends what makeReady began; the source no longer reports progress for the message.
func (s *Source) stopProgress(d *delivery) {
	s.mu.Lock()
	delete(s.held, d)
	s.mu.Unlock()
}

// handBack returns held messages. The server knows when the flush returns.
func (s *Source) handBack() {
	s.mu.Lock()
	held := s.held
	s.held = nil // stopProgress may still be called
	s.mu.Unlock()
	if s.trust.lost.Load() {
		return
	}
	for d := range held {
		_ = s.nc.Publish(d.reply, nakAnswer)
	}
	s.flush()
}

// flush waits until the server has read what was sent.
func (s *Source) flush() {
	if s.nc.IsConnected() {
		_ = s.nc.FlushTimeout(s.o.Timeout)
	}
}

var errDeleted = errors.New("natsidem: the stream or its consumer was deleted, or made again; what was delivered counts no more. Open a source again")
