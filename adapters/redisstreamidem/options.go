package redisstreamidem

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Options name the stream and the consumer group. Stream and Group are required; all other fields
// have a default.
type Options struct {
	// Stream is the key of the stream.
	Stream string
	// Group is the consumer group. All processes that share the work use the same group. If it is
	// missing, it is created and starts at the oldest entry. If it was lost (XGROUP DESTROY, a
	// failover to a replica without it), it is created again after the last entry before which all
	// were settled: a second group, of the name with ":retrysafe-settled" after it, marks that
	// place in the stream, at most a second old. To read a stream again from its beginning, destroy
	// both. If the mark is gone too, sources that run know the place; otherwise it is a new group.
	Group string
	// DeadStream is the key of the stream of dead letters. Default: the key of the stream, in
	// braces if it has none, and ":dead", since both must be in one slot of a cluster. Groups of
	// one stream that do different work each need their own.
	DeadStream string
	// Idle is how long a consumer may be silent before another one takes over its messages. Default
	// 1 minute. All consumers of a group should use the same value.
	Idle time.Duration
	// Delete removes an entry when it is done, as long as this group is the only one of the stream.
	// [Open] returns an error if there is another one. When another group is created later, nothing
	// is removed any more, and the place of this group is marked as without Delete. The other group
	// gets the entries that were not done yet, and all later ones.
	Delete bool
	// Prefetch is how many messages a source holds beyond those that calls of Receive wait for.
	// mqidem.Consume asks for one at a time. Without a prefetch each costs a round trip; with a
	// large one messages wait in this process while others may be idle. Default 16, at most 256;
	// negative means none. mqidem.ConsumeBatch raises it to the size of a batch.
	Prefetch int
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
	// Logger gets problems with the server. Default slog.Default().
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
	case o.Stream == "" || o.Group == "":
		return o, errors.New("redisstreamidem: Options.Stream and Options.Group are required: they name the stream and the consumer group")
	case o.Idle < 0 || o.Timeout < 0 || o.Prefetch > mostAhead:
		return o, fmt.Errorf("redisstreamidem: Idle and Timeout cannot be negative, and Prefetch is at most %d", mostAhead)
	case o.Idle > 0 && o.Idle < 30*time.Millisecond:
		return o, errors.New("redisstreamidem: Options.Idle is under 30 ms; consumers would take from each other what is in work")
	}
	o.DeadStream = cmp.Or(o.DeadStream, slotPrefix(o.Stream)+":dead")
	if o.DeadStream == o.Stream {
		return o, errors.New("redisstreamidem: Options.DeadStream and Options.Stream are the same key; dead letters need a stream of their own")
	}
	o.Idle = cmp.Or(o.Idle, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Prefetch = max(0, cmp.Or(o.Prefetch, 16))
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// slotPrefix returns the prefix of keys in the slot of key: the part in braces, or else all of key.
func slotPrefix(key string) string {
	if strings.ContainsAny(key, "{}") {
		return key
	}
	return "{" + key + "}"
}

// ownConsumers is the prefix of the names of consumers of this package. Others are never deleted.
const ownConsumers = "retrysafe-"

// newConsumerName returns a name that no other source has.
func newConsumerName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	host, _ := os.Hostname()
	return ownConsumers + host + "-" + hex.EncodeToString(b[:])
}

// server is a client and the timeout of its calls.
type server struct {
	client  redisclient.Client
	timeout time.Duration
}
