package amqpidem

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"time"
)

// Options are for [Declare], [Open] and [OpenDeadLetters]; nil is valid. All consumers of a queue
// should use the same options.
type Options struct {
	// Prefetch is how many unacked messages the broker gives to this consumer; default 256, at most
	// 65535. It should be twice the number of messages that are worked on at a time, for example
	// twice the size of a batch.
	Prefetch int
	// Quorum makes quorum queues, which several nodes store and which lose nothing if one node
	// dies; default durable classic queues.
	Quorum bool
	// Passive declares nothing: the queues must exist, also those of Delays. It needs no permission
	// to configure.
	Passive bool
	// Delays are the waits that later tries are rounded up to. Each has its own queue. A longer
	// wait is cut to the largest one. From 1 ms to 24 days each, default 1s 3s 10s 30s 1m 5m 15m
	// 1h. The queue of a removed level stays, and its messages still return to the work queue.
	Delays []time.Duration
	// TTL is how long a message may stay in the work queue before the broker dead-letters it; whole
	// milliseconds, up to 24 days. Default: no limit.
	TTL time.Duration
	// DeliveryLimit is how often a quorum queue redelivers a message after its consumer died or was
	// cut off, before the broker dead-letters it; default 1000. (The default of RabbitMQ 4 is 20,
	// which dead-letters messages that are merely slow.)
	DeliveryLimit int
	// Exchange is a durable topic exchange that is declared and bound to the queue by the keys of
	// Bindings ("order.*"); default "#", which is all. Existing bindings stay until an operator
	// removes them. Default: no exchange; publish to the queue's name.
	Exchange string
	Bindings []string
	// PublishTimeout limits each wait for the broker in [Delivery.Retry], Dead and Send: to
	// connect, to send a copy, to get its confirmation. Default 10 s. If a message could not be
	// settled and is not tried again within three times that, the broker redelivers it.
	PublishTimeout time.Duration
	// Dialing says how to reach the broker.
	Dialing
}

// Dialing says how to reach a broker; its zero value is valid.
type Dialing struct {
	// TLS is for amqps URLs; default the system's roots, and the files that the URL names.
	TLS *tls.Config
	// Dial makes TCP connections; default that of a [net.Dialer].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Name is the name of the connections in the broker's list; default "retrysafe".
	Name string
	// Logger gets messages about connections that end; default [slog.Default].
	Logger *slog.Logger
}

const (
	defaultPrefetch       = 256
	defaultPublishTimeout = 10 * time.Second
	defaultDeliveryLimit  = 1000
	// the largest x-message-ttl that all versions of RabbitMQ accept
	maxDelay = math.MaxInt32 * time.Millisecond
	maxName  = 255
)

var defaultDelays = []time.Duration{
	time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

// settings are options with their defaults, for one queue.
type settings struct {
	Options
	queue  string
	levels []int64 // of Delays, in milliseconds, ascending
}

func newSettings(queue string, o *Options) (*settings, error) {
	s := &settings{queue: queue}
	if o != nil {
		s.Options = *o
	}
	s.Prefetch = cmp.Or(s.Prefetch, defaultPrefetch)
	s.PublishTimeout = cmp.Or(s.PublishTimeout, defaultPublishTimeout)
	s.DeliveryLimit = cmp.Or(s.DeliveryLimit, defaultDeliveryLimit)
	s.Dialing.setDefaults()
	if s.Exchange != "" && len(s.Bindings) == 0 {
		s.Bindings = []string{"#"}
	}
	if len(s.Delays) == 0 {
		s.Delays = defaultDelays
	}
	for _, d := range s.Delays {
		if d < time.Millisecond || d > maxDelay {
			return nil, fmt.Errorf("amqpidem: one of Options.Delays is %v; each must be from 1 ms to %v", d, maxDelay)
		}
		s.levels = append(s.levels, ceilMilliseconds(d))
	}
	slices.Sort(s.levels)
	s.levels = slices.Compact(s.levels)
	return s, s.validate()
}

func (s *settings) validate() error {
	switch longest := s.delayQueue(s.levels[len(s.levels)-1]); {
	case s.queue == "":
		return errors.New("amqpidem: the name of the queue is empty")
	case len(longest) > maxName:
		return fmt.Errorf("amqpidem: the name of the queue has %d bytes; at most %d are allowed, since the delay queues have longer ones",
			len(s.queue), maxName-(len(longest)-len(s.queue)))
	case s.Prefetch < 0 || s.Prefetch > math.MaxUint16:
		return fmt.Errorf("amqpidem: Options.Prefetch is %d; it must be 1 to %d", s.Prefetch, math.MaxUint16)
	case s.TTL < 0 || s.TTL > maxDelay || s.TTL%time.Millisecond != 0:
		return fmt.Errorf("amqpidem: Options.TTL is %v; it must be whole milliseconds, up to %v", s.TTL, maxDelay)
	case s.DeliveryLimit < 0 || s.DeliveryLimit > math.MaxInt32:
		return fmt.Errorf("amqpidem: Options.DeliveryLimit is %d; it must be 1 to %d", s.DeliveryLimit, math.MaxInt32)
	case s.PublishTimeout < 0:
		return fmt.Errorf("amqpidem: Options.PublishTimeout is %v; it must be more than zero", s.PublishTimeout)
	case s.Exchange == "" && len(s.Bindings) > 0:
		return errors.New("amqpidem: Options.Bindings without Options.Exchange; name the exchange")
	}
	return checkExchangeName(s.Exchange)
}

func checkExchangeName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("amqpidem: Options.Exchange has %d bytes; at most %d are allowed", len(name), maxName)
	}
	return nil
}

func (d *Dialing) setDefaults() {
	if d.Dial == nil {
		d.Dial = (&net.Dialer{}).DialContext
	}
	if d.Name == "" {
		d.Name = "retrysafe"
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
}

// deadLetterQueue returns the name of the dead-letter queue.
func (s *settings) deadLetterQueue() string { return s.queue + ".dead" }

func (s *settings) delayQueue(level int64) string {
	return s.queue + ".delay." + strconv.FormatInt(level, 10)
}

// retryQueue returns the queue for a copy that must return after a time.
func (s *settings) retryQueue(after time.Duration) string {
	if after <= 0 {
		return s.queue
	}
	level, _ := slices.BinarySearch(s.levels, ceilMilliseconds(after))
	return s.delayQueue(s.levels[min(level, len(s.levels)-1)])
}

// giveBackTime is how long a consumer may retry to settle a message before the broker redelivers
// it.
func (s *settings) giveBackTime() time.Duration { return 3 * s.PublishTimeout }

// ceilMilliseconds rounds up.
func ceilMilliseconds(d time.Duration) int64 {
	n := d.Milliseconds()
	if d > time.Duration(n)*time.Millisecond {
		n++
	}
	return n
}
