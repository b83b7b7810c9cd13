package natsidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options name the stream and the consumer. Stream and Consumer are required, all else has a
// default.
type Options struct {
	// Stream is the name of the stream.
	Stream string
	// Consumer is the name of the durable consumer, without dots and spaces. All processes that
	// share the work use the same.
	Consumer string
	// Subjects are what [Create] makes the consumer take. Empty: all of the stream.
	Subjects []string
	// AckWait is after how much silence the server gives a message to another consumer; [Create]
	// sets it. Default 30 s. While a message is not settled, the source speaks up three times in
	// that time.
	AckWait time.Duration
	// DeadStream is the stream of parked messages. Default: the name of the stream and "-dead".
	DeadStream string
	// DeadSubject is what the subjects of parked messages begin with; the message's own follows
	// behind a dot. Default: "retrysafe.dead." and the name of the stream.
	DeadSubject string
	// Prefetch is how many messages a source holds beyond those that calls of Receive wait for.
	// mqidem.Consume asks for one at a time: without any each costs a round trip; with many they
	// wait in this process while others may be idle. Default 16, at most 256; negative: none.
	Prefetch int
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
	// Logger is told of what goes wrong with the connection. Default slog.Default().
	Logger *slog.Logger
}

// mostAhead is how many messages are asked for at once at most.
const mostAhead = 256

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Stream == "" || o.Consumer == "":
		return o, errors.New("natsidem: Options.Stream and Options.Consumer are required: they name the stream and its durable consumer")
	case o.AckWait < 0 || o.Timeout < 0 || o.Prefetch > mostAhead:
		return o, fmt.Errorf("natsidem: AckWait and Timeout cannot be negative, and Prefetch is at most %d", mostAhead)
	}
	o.Subjects = slices.Clone(o.Subjects)
	o.AckWait = or(o.AckWait, 30*time.Second)
	o.Timeout = or(o.Timeout, 5*time.Second)
	o.DeadStream = or(o.DeadStream, o.Stream+"-dead")
	o.DeadSubject = or(o.DeadSubject, "retrysafe.dead."+o.Stream)
	o.Prefetch = max(0, or(o.Prefetch, 16))
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

func or[V comparable](v, otherwise V) V {
	var zero V
	if v == zero {
		return otherwise
	}
	return v
}

// Create makes the stream, the stream of parked messages (with the same storage and replicas, and
// no limits) and the consumer, where they are not there. What is there is not changed; [Open] says
// where it does not fit. It may be called by several processes at once. stream.Name may be empty:
// it is o.Stream.
func Create(ctx context.Context, js jetstream.JetStream, stream jetstream.StreamConfig, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if stream.Name = or(stream.Name, o.Stream); stream.Name != o.Stream {
		return errors.New("natsidem: the configuration of the stream and Options.Stream name two streams; nothing was created")
	}
	parked := jetstream.StreamConfig{
		Name: o.DeadStream, Subjects: []string{o.DeadSubject + ".>"}, Storage: stream.Storage, Replicas: stream.Replicas,
		Retention: jetstream.LimitsPolicy, Description: "messages that " + o.Stream + " could not get done",
	}
	for _, c := range []jetstream.StreamConfig{stream, parked} {
		if _, err := js.CreateStream(ctx, c); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("natsidem: cannot create the stream %s; what was created before it stays: %w", c.Name, explain(err))
		}
	}
	// No limit of what is pending: messages that wait for a later try would use it up, and those
	// behind them would wait with them. Each source bounds what it takes.
	_, err = js.CreateConsumer(ctx, o.Stream, jetstream.ConsumerConfig{
		Durable: o.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait, MaxDeliver: -1, MaxAckPending: -1, FilterSubjects: o.Subjects,
	})
	if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return fmt.Errorf("natsidem: cannot create the consumer %s; the streams stay: %w", o.Consumer, explain(err))
	}
	return nil
}

// stays refuses a connection that gives up: a cut connection must be no error.
func stays(nc *nats.Conn) error {
	if nc.IsClosed() {
		return errors.New("natsidem: the connection is closed; connect again")
	}
	if !nc.Opts.AllowReconnect || nc.Opts.MaxReconnect >= 0 {
		return errors.New("natsidem: the connection gives up after some tries to reconnect; connect with nats.MaxReconnects(-1)")
	}
	return nil
}

// fits says why a consumer cannot be used.
func fits(c *jetstream.ConsumerConfig) error {
	switch {
	case c.DeliverSubject != "":
		return errors.New("it is a push consumer; create a pull consumer")
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return errors.New("its ack policy is not explicit, so that one ack would settle other messages too; create another consumer")
	case c.MaxDeliver > 0:
		return fmt.Errorf("it has MaxDeliver %d: the server would let go of messages that are only slow, and nobody would be told; set it to -1, and "+
			"the number of tries in mqidem.Options", c.MaxDeliver)
	case c.PriorityPolicy != jetstream.PriorityPolicyNone:
		return errors.New("it has a priority policy: the server refuses requests that name no group; create a consumer without one")
	case c.HeadersOnly:
		return errors.New("it delivers headers only, and a message that is parked or put back would lose its body; create another consumer")
	}
	return nil
}
