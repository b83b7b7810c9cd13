// Package redisclient is what this project needs of a Redis client, so that stores import none.
// Only [Client] is required; each other interface unlocks what its comment says. The adapters
// rueidisclient and goredisclient implement all of them.
package redisclient

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by it
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Script is Lua that the server runs as one step.
type Script struct{ Name, Source, SHA1 string }

// NewScript returns the script with its digest, by which EVALSHA names it.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &Script{Name: name, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. All keys are in one slot. Keys and Args are bytes, not text.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
	// Alone: a client that sends calls together sends this one by itself. Heartbeats do not stand
	// in line after claims.
	Alone bool
}

// Reply is what the server said: an int64, a string, a []any of them, or nil. Err is an [Error]
// where the server refused, a context's error, or that of a connection, after which nobody knows
// whether the call was applied.
type Reply struct {
	Value any
	Err   error
}

// UnknownScript tells whether the server refused EVALSHA because it does not know the script:
// nothing was run, and EVAL comes next.
func (r Reply) UnknownScript() bool {
	refused, ok := errors.AsType[Error](r.Err)
	return ok && refused.Code() == "NOSCRIPT"
}

// SendMany is how an adapter makes n calls in one round trip: send makes those at places, whole
// with the scripts themselves, and returns the places of those whose script the server did not
// know. These are sent once more, whole, in one more round trip.
func SendMany(n int, send func(whole bool, places []int) (unknown []int)) {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	if unknown := send(false, places); len(unknown) > 0 {
		send(true, unknown)
	}
}

// Pairs turns a map of RESP3 into the names and values, in turn, that RESP2 has in its place. The
// order is that of the map: any.
func Pairs[K comparable](m map[K]any) []any {
	pairs := make([]any, 0, 2*len(m))
	for name, value := range m {
		pairs = append(pairs, name, value)
	}
	return pairs
}

// Error is a refusal of the server in its own words, which begin with a code: NOSCRIPT, READONLY,
// OOM, … The call was not applied, or the script ended where the error arose.
type Error string

func (e Error) Error() string { return "redis: " + string(e) }

// Code is the first word.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Client runs one script on the node that owns Keys[0], by EVALSHA, and by EVAL where the server
// does not know the script. It returns no later than its context ends. It must not send a call a
// second time by itself once a byte of it may have reached the server, unless it may be repeated:
// the scripts of this project all may, but that what counts for limits counts twice then. (Those
// that take a token of token/classic refuse on a repeat what nobody has done yet; they never allow
// it twice.)
type Client interface {
	Eval(context.Context, Call) Reply
}

// Pipeliner runs calls in one round trip for each node, and in a second one where a server does not
// know a script. Replies come in the order of the calls; calls may fail apart. Calls are not made
// in any order: those for one key go into different batches.
type Pipeliner interface {
	EvalMany(context.Context, []Call) []Reply
}

// Subscriber tells of messages on a channel, so that waiters are woken and copies dropped; without
// it they poll. Subscribe calls on for each message, once with an empty payload when the
// subscription stands, and blocks until ctx ends or the connection is lost.
type Subscriber interface {
	Subscribe(ctx context.Context, channel string, on func(payload string)) error
}

// Nodes calls f for each primary, for lists and for the checks at start; without it both are off,
// and said to be.
type Nodes interface {
	EachPrimary(ctx context.Context, f func(ctx context.Context, do func(ctx context.Context, cmd ...string) Reply) error) error
}

// Dialer asks one server by its address, as the user of the client: a replica, whose clock a store
// compares at its start. What is opened for that is closed when f has returned. It ends soon after
// ctx does.
type Dialer interface {
	At(ctx context.Context, addr string, f func(do func(ctx context.Context, cmd ...string) Reply) error) error
}

// Replicated runs a script and WAIT on one connection: a script cannot call WAIT, and on another
// connection it means nothing. acked is how many replicas had confirmed the script's writes within
// the time.
type Replicated interface {
	EvalWait(ctx context.Context, c Call, replicas int, within time.Duration) (r Reply, acked int)
}
