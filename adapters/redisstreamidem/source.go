package redisstreamidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Source is a mqidem.Source and a mqidem.Holder on a consumer group. It can be used concurrently.
type Source struct {
	server
	o        Options
	consumer string

	queue  *mqidem.Prefetch
	poller poller

	mu         sync.Mutex
	held       map[string]*delivery // by id: messages whose claims are renewed
	laterTries map[string]time.Time // by id: messages that wait for a later try; renewed too
	lostIDs    []string             // ids of messages that the stream has lost, to be reported

	settled atomic.Bool // something was settled since the mark was moved

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

// Open returns a source that is a new consumer of the group. It creates the group if it is missing:
// see Options.Group. The caller keeps the client, which must reconnect by itself, and closes it
// after the source. Close the source at the end.
func Open(ctx context.Context, c redisclient.Client, options *Options) (*Source, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{
		server: server{c, o.Timeout}, o: o, consumer: newConsumerName(), queue: mqidem.NewPrefetch(o.Prefetch, mostAhead),
		held: map[string]*delivery{}, laterTries: map[string]time.Time{}, poller: poller{cursor: "0-0"},
	}
	s.settled.Store(true) // a group of an earlier version has no mark
	if err := s.setUpGroup(ctx, o.Delete); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tasks.Go(s.run)
	return s, nil
}

// setUpGroup makes the group if it is missing. If it has to be alone, other groups are an error.
func (s *Source) setUpGroup(ctx context.Context, alone bool) error {
	said, err := parseTexts(s.eval(ctx, setUpScript, []string{s.o.Stream, s.o.DeadStream}, []string{s.o.Group, flagArg(alone), s.poller.mark}))
	if err == nil && len(said) == 0 {
		err = errUnexpectedReply
	}
	if err != nil {
		return fmt.Errorf("redisstreamidem: cannot open the stream %s with its group %s and its stream of dead letters %s: %w", s.o.Stream, s.o.Group, s.o.DeadStream, err)
	}
	switch said[0] {
	case "others":
		return errors.New("redisstreamidem: the stream has other groups, which would lose what Options.Delete removes; leave it off")
	case "ahead":
		return &placeError{s.o.Stream, s.o.Group, s.poller.mark}
	case "made":
		s.logCreated(said[len(said)-1])
	case "there":
	default:
		return errUnexpectedReply
	}
	return nil
}

// logCreated logs that the group was created after an id.
func (s *Source) logCreated(from string) {
	switch first := s.poller.mark == "" && from == "0-0"; {
	case first: // most likely it is new
	case from == "0-0":
		s.o.Logger.Warn("redisstreamidem: the group was gone, and begins at the oldest entry", "stream", s.o.Stream, "group", s.o.Group)
	default:
		s.o.Logger.Warn("redisstreamidem: the group was gone, and begins after the last entry before which all were settled", "stream", s.o.Stream, "group", s.o.Group, "after", from)
	}
}

// placeError means that the group is gone, and that nothing tells which entries it had settled.
type placeError struct{ stream, group, settled string }

func (e *placeError) Error() string {
	return fmt.Sprintf("redisstreamidem: the group %s of the stream %s is gone, and the stream ends before %s, up to which all was settled: it is another stream by now, or a failover has lost its end. "+
		"Nothing more is run. Create the group and start the consumer again: XGROUP CREATE %s %s 0 if its entries are new, or XGROUP CREATE %s %s $ if they are done",
		e.group, e.stream, e.settled, e.stream, e.group, e.stream, e.group)
}

func flagArg(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Ahead implements [mqidem.Batched].
func (s *Source) Ahead(n int) { s.queue.Ahead(n) }

// HoldsFor implements mqidem.Holder. Entries that are done stay for ever, unless Options.Delete
// removes them. If something else does (XTRIM with MINID, or a maximum length), say so with
// mqidem.Options.HoldsFor.
func (s *Source) HoldsFor(context.Context) (time.Duration, error) {
	if s.o.Delete {
		return 0, nil
	}
	return retrysafe.Forever, nil
}

// Receive implements mqidem.Source. It returns the error of its context, that of a closed source,
// or one that an operator has to resolve: the group was lost, together with what says where it was.
// Other problems with the server are logged, and the source tries again. A delivery that is a
// mqidem.Lost reports an entry that the stream has lost before it was settled.
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) { return s.queue.Receive(ctx) }

// Close ends all that the source started, and hands back unsettled messages. Another consumer takes
// them over within a second, and those that wait for a later try when that is due, at most Idle
// later. Close returns when the server knows or after the timeout, and never returns an error. It
// can be called again. Settling a message after Close returns ErrStale.
func (s *Source) Close() error {
	s.once.Do(func() {
		s.queue.End(mqidem.ErrSourceClosed)
		s.cancel()
		s.tasks.Wait()
		s.handBack()
	})
	return nil
}

// longIdle is longer than any Idle, in milliseconds.
const longIdle = "31536000000"

// handBack returns all held messages to the server, in parts, since the server does nothing else
// while a script runs. If none are held it still makes one call, which deletes the consumer.
func (s *Source) handBack() {
	var args []string
	now := time.Now()
	s.mu.Lock()
	for id := range s.held {
		args = append(args, id, longIdle)
	}
	for id, at := range s.laterTries {
		// the idle time is such that it reaches Idle when the try is due
		args = append(args, id, strconv.FormatInt(max(0, s.o.Idle-max(0, at.Sub(now))).Milliseconds(), 10))
	}
	s.held, s.laterTries = nil, nil
	gone := len(s.lostIDs)
	s.mu.Unlock()
	if gone > 0 {
		s.o.Logger.Error("redisstreamidem: the stream has lost messages before they were settled", "stream", s.o.Stream, "group", s.o.Group, "messages", gone, "error", errLost)
	}
	ctx, end := context.WithTimeout(context.Background(), s.o.Timeout)
	defer end()
	_ = s.moveMark(ctx) // others keep it too
	for first := true; first || len(args) > 0; first = false {
		n := min(len(args), 2*maxPerScript)
		if _, err := s.eval(ctx, handBackScript, []string{s.o.Stream}, append([]string{s.o.Group, s.consumer}, args[:n]...)); err != nil {
			s.o.Logger.Warn("redisstreamidem: cannot hand back what is not settled; others have it after Idle", "stream", s.o.Stream, "group", s.o.Group, "error", err)
			return
		}
		args = args[n:]
	}
}

// stopRenewing ends the renewals of a delivery.
func (s *Source) stopRenewing(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[d.id] == d {
		delete(s.held, d.id)
	}
}

// isNoGroup reports whether an error says that the group, or the whole stream, is missing.
func isNoGroup(err error) bool {
	refused, ok := errors.AsType[redisclient.Error](err)
	return ok && refused.Code() == "NOGROUP"
}
