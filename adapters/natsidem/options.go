package natsidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options name the stream and the consumer. Stream and Consumer are required; all other fields have
// a default.
type Options struct {
	// Stream is the name of the stream.
	Stream string
	// Consumer is the name of the durable consumer, without dots and spaces. All processes that
	// share the work use the same name.
	Consumer string
	// Subjects are the subjects of the consumer that [Create] makes. Empty means all of the stream.
	Subjects []string
	// AckWait is how long a consumer may be silent before the server redelivers its message;
	// [Create] sets it. Default 30 s. Until a message is settled, the source reports progress three
	// times in that time.
	AckWait time.Duration
	// DeadStream is the stream of dead letters. Default: the name of the stream and "-dead".
	DeadStream string
	// DeadSubject is the prefix of the subjects of dead letters. A dot and the message's own
	// subject follow it. Default: "retrysafe.dead." and the name of the stream.
	DeadSubject string
	// Prefetch is how many messages a source holds beyond those that calls of Receive wait for.
	// mqidem.Consume asks for one at a time. Without a prefetch each costs a round trip; with a
	// large one messages wait in this process while others may be idle. Default 16, at most 256;
	// negative means none. mqidem.ConsumeBatch raises it to the size of a batch.
	Prefetch int
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
	// Logger gets problems of the connection. Default slog.Default().
	Logger *slog.Logger
}

// mostAhead is the largest number of messages that a source asks for at once.
const mostAhead = 256

func (given *Options) withDefaults() (Options, error) {
	var o Options
	if given != nil {
		o = *given
	}
	switch {
	case o.Stream == "" || o.Consumer == "":
		return o, errors.New("natsidem: Options.Stream and Options.Consumer are required: they name the stream and its durable consumer")
	case o.AckWait < 0 || o.Timeout < 0 || o.Prefetch > mostAhead:
		return o, fmt.Errorf("natsidem: AckWait and Timeout cannot be negative, and Prefetch is at most %d", mostAhead)
	}
	o.Subjects = slices.Clone(o.Subjects)
	o.AckWait = cmp.Or(o.AckWait, 30*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.DeadStream = cmp.Or(o.DeadStream, o.Stream+"-dead")
	o.DeadSubject = cmp.Or(o.DeadSubject, "retrysafe.dead."+o.Stream)
	o.Prefetch = max(0, cmp.Or(o.Prefetch, 16))
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// Create creates the stream, the stream of dead letters (with the same storage and replicas, and no
// limits) and the consumer, if they are missing. It does not change what exists; [Open] returns an
// error if that does not fit. Several processes may call Create at once. If stream.Name is empty,
// it is options.Stream.
//
// A stream with limits (LimitsPolicy, the default) keeps messages that are done: set MaxAge, and
// records that are kept for as long, or WorkQueuePolicy. See mqidem.Holder.
func Create(ctx context.Context, js jetstream.JetStream, stream jetstream.StreamConfig, options *Options) error {
	o, err := options.withDefaults()
	if err != nil {
		return err
	}
	if stream.Name = cmp.Or(stream.Name, o.Stream); stream.Name != o.Stream {
		return errors.New("natsidem: the configuration of the stream and Options.Stream name two streams; nothing was created")
	}
	dead := jetstream.StreamConfig{
		Name: o.DeadStream, Subjects: []string{o.DeadSubject + ".>"}, Storage: stream.Storage, Replicas: stream.Replicas,
		Retention: jetstream.LimitsPolicy, Description: "messages that " + o.Stream + " could not get done",
	}
	for _, c := range []jetstream.StreamConfig{stream, dead} {
		if _, err := js.CreateStream(ctx, c); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("natsidem: cannot create the stream %s; what was created before it stays: %w", c.Name, explainError(err))
		}
	}
	// No MaxAckPending: messages that wait for a later try would use it up, and the messages after
	// them would wait too. Each source limits what it takes.
	_, err = js.CreateConsumer(ctx, o.Stream, jetstream.ConsumerConfig{
		Durable: o.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait, MaxDeliver: -1, MaxAckPending: -1, FilterSubjects: o.Subjects,
	})
	if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return fmt.Errorf("natsidem: cannot create the consumer %s; the streams stay: %w", o.Consumer, explainError(err))
	}
	return nil
}

// checkReconnects refuses a connection that stops reconnecting: a lost connection must not be an
// error.
func checkReconnects(nc *nats.Conn) error {
	if nc.IsClosed() {
		return errors.New("natsidem: the connection is closed; connect again")
	}
	if !nc.Opts.AllowReconnect || nc.Opts.MaxReconnect >= 0 {
		return errors.New("natsidem: the connection gives up after some tries to reconnect; connect with nats.MaxReconnects(-1)")
	}
	return nil
}

// consumerFault returns why a consumer cannot be used.
func consumerFault(c *jetstream.ConsumerConfig) error {
	switch {
	case c.DeliverSubject != "":
		return errors.New("it is a push consumer; create a pull consumer")
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return errors.New("its ack policy is not explicit, so that one ack would settle other messages too; create another consumer")
	case c.MaxDeliver > 0:
		return fmt.Errorf("it has MaxDeliver %d: the server would let go of messages that are only slow, without a report; set it to -1, and "+
			"the number of tries in mqidem.Options", c.MaxDeliver)
	case c.PriorityPolicy != jetstream.PriorityPolicyNone:
		return errors.New("it has a priority policy: the server refuses requests that name no group; create a consumer without one")
	case c.HeadersOnly:
		return errors.New("it delivers headers only, and a message that becomes a dead letter or is redriven would lose its body; create another consumer")
	}
	return nil
}
