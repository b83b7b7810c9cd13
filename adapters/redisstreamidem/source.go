package redisstreamidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Source is a mqidem.Source on a consumer group. It is safe for concurrent use. It is no
// mqidem.Holder: Redis does not tell how long an entry stays.
type Source struct {
	server
	o        Options
	consumer string

	waiting atomic.Int64 // calls of Receive
	poke    chan struct{}
	ready   chan *delivery
	pump    pump

	mu    sync.Mutex
	held  map[string]*delivery // by id: what the server is told of that it is in work
	later map[string]time.Time // by id: what waits for a later try; it is told of too

	ended  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once
}

var _ mqidem.Source = (*Source)(nil)

// Open takes messages as a new consumer of the group, which is made where it is not there. The
// client stays the caller's, and has to connect again by itself; it is closed after the source.
// Close the source in the end.
func Open(ctx context.Context, c redisclient.Client, o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{
		server: server{c, o.Timeout}, o: o, consumer: newConsumer(), poke: make(chan struct{}, 1), ready: make(chan *delivery, 2*mostAhead),
		held: map[string]*delivery{}, later: map[string]time.Time{}, ended: make(chan struct{}), pump: pump{cursor: "0-0"},
	}
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tasks.Go(s.run)
	return s, nil
}

func (s *Source) setUp(ctx context.Context) error {
	n, err := number(s.eval(ctx, setUp, []string{s.o.Stream, s.o.Dead}, []string{s.o.Group, flag(s.o.Delete)}))
	switch {
	case err != nil:
		return fmt.Errorf("redisstreamidem: cannot open the stream %s with its group %s and its parking %s: %w", s.o.Stream, s.o.Group, s.o.Dead, err)
	case n < 0:
		return errors.New("redisstreamidem: the stream has other groups, which would lose what Options.Delete removes; leave it off")
	}
	return nil
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Receive implements mqidem.Source. It has no error but that of its context and that of a closed
// source: what is wrong with the server is logged and tried again.
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.wake()
	select {
	case <-s.ended: // whatever lies ready was handed back
		return nil, mqidem.ErrSourceClosed
	default:
	}
	select {
	case d := <-s.ready:
		s.wake() // there may be room
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, mqidem.ErrSourceClosed
	}
}

func (s *Source) wake() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Close ends all that the source started, and hands back what is not settled: another consumer
// takes it over within a second, and what waits for a later try when its time has come, at most
// Idle later. It returns when the server knows, or after the timeout, and never an error. It may be
// called again. What is settled afterwards is ErrStale.
func (s *Source) Close() error {
	s.once.Do(func() {
		close(s.ended)
		s.cancel()
		s.tasks.Wait()
		s.handBack()
	})
	return nil
}

// long is longer than any Idle, in milliseconds.
const long = "31536000000"

// handBack tells the server of all that is held, in parts, since it does nothing else while a
// script runs. It is called once with nothing, too: the consumer is deleted.
func (s *Source) handBack() {
	var args []string
	now := time.Now()
	s.mu.Lock()
	for id := range s.held {
		args = append(args, id, long)
	}
	for id, at := range s.later {
		// it has been silent for so long that Idle ends when its time has come
		args = append(args, id, strconv.FormatInt(max(0, s.o.Idle-max(0, at.Sub(now))).Milliseconds(), 10))
	}
	s.held, s.later = nil, nil
	s.mu.Unlock()
	ctx, end := context.WithTimeout(context.Background(), s.o.Timeout)
	defer end()
	for first := true; first || len(args) > 0; first = false {
		n := min(len(args), 2*atOnce)
		if _, err := s.eval(ctx, handBack, []string{s.o.Stream}, append([]string{s.o.Group, s.consumer}, args[:n]...)); err != nil {
			s.o.Logger.Warn("redisstreamidem: cannot hand back what is not settled; others have it after Idle", "stream", s.o.Stream, "group", s.o.Group, "error", err)
			return
		}
		args = args[n:]
	}
}

// closed tells whether Close has begun.
func (s *Source) closed() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// letGo ends what the server is told of a delivery.
func (s *Source) letGo(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[d.id] == d {
		delete(s.held, d.id)
	}
}

// noGroup tells whether the group, or the stream with it, is not there.
func noGroup(err error) bool {
	refused, ok := errors.AsType[redisclient.Error](err)
	return ok && refused.Code() == "NOGROUP"
}
