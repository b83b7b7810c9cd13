package redisstreamidem

import (
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

// Options name the stream and the consumer group. Stream and Group are required, all else has a
// default.
type Options struct {
	// Stream is the key of the stream.
	Stream string
	// Group is the consumer group. All processes that share the work use the same. It is made where
	// it is not there, and begins with the oldest entry; so it does when the stream was deleted, or
	// the server has lost it.
	Group string
	// Dead is the key of the stream of parked messages. Default: that of the stream in braces, if
	// it has none, and ":dead": in a cluster both have to be in one slot. Groups of one stream that
	// do different work need one each.
	Dead string
	// Idle is after how much silence a message is taken away from a consumer. Default 1 minute. All
	// consumers of a group should have the same.
	Idle time.Duration
	// Delete removes an entry when it is done, as long as this group is the only one of the stream:
	// [Open] refuses it otherwise, and from the moment that another group is made nothing is
	// removed. A group that is made then has what was not done yet, and all that comes.
	Delete bool
	// Prefetch is how many messages a source holds beyond those that calls of Receive wait for.
	// mqidem.Consume asks for one at a time: without any each costs a round trip; with many they
	// wait in this process while others may be idle. Default 16, at most 256; negative: none.
	Prefetch int
	// Timeout is how long one call of the server may take. Default 5 s.
	Timeout time.Duration
	// Logger is told of what goes wrong with the server. Default slog.Default().
	Logger *slog.Logger
}

// mostAhead is how many messages are asked for at once at most.
const mostAhead = 256

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Stream == "" || o.Group == "":
		return o, errors.New("redisstreamidem: Options.Stream and Options.Group are required: they name the stream and the consumer group")
	case o.Idle < 0 || o.Timeout < 0 || o.Prefetch > mostAhead:
		return o, fmt.Errorf("redisstreamidem: Idle and Timeout cannot be negative, and Prefetch is at most %d", mostAhead)
	case o.Idle > 0 && o.Idle < 30*time.Millisecond:
		return o, errors.New("redisstreamidem: Options.Idle is under 30 ms; consumers would take from each other what is in work")
	}
	o.Dead = or(o.Dead, beside(o.Stream)+":dead")
	if o.Dead == o.Stream {
		return o, errors.New("redisstreamidem: Options.Dead and Options.Stream are the same key; parked messages need a stream of their own")
	}
	o.Idle = or(o.Idle, time.Minute)
	o.Timeout = or(o.Timeout, 5*time.Second)
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

// beside makes of a key what keys in its slot begin with: what is in braces counts, else all of it.
func beside(key string) string {
	if strings.ContainsAny(key, "{}") {
		return key
	}
	return "{" + key + "}"
}

// ownConsumers is what the names of consumers of this package begin with: others are never deleted.
const ownConsumers = "retrysafe-"

// newConsumer is a name that no other source has.
func newConsumer() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	host, _ := os.Hostname()
	return ownConsumers + host + "-" + hex.EncodeToString(b[:])
}

// server is a client, and what its calls have in common.
type server struct {
	c       redisclient.Client
	timeout time.Duration
}
