// Package redisclient defines what this project needs of a Redis client, so that stores import
// none. Only [Client] is required; the other interfaces are optional, and their comments say what
// they are for. The adapters rueidisclient and goredisclient implement all of them.
package redisclient

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by it
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Script is a Lua script that the server runs atomically.
type Script struct {
	Name, Source, SHA1 string
	// joined runs the script for many keys; nil if it cannot.
	joined *Script
}

// NewScript returns a script with its digest, which EVALSHA uses as its name.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &Script{Name: name, Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. All keys must be in one slot. Keys and Args are bytes, not text.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
	// Alone: a client that sends calls together sends this one separately. It keeps heartbeats from
	// queueing with claims.
	Alone bool
	// Join: one server has this key and those of other calls with Join, whatever their slots. A
	// client may make one run of several such calls; see [SendMany].
	Join bool
}

// Reply is the server's reply: an int64, a string, a []any of them, or nil. Err is an [Error] if
// the server refused the call, a context's error, or a connection's error. After a connection's
// error it is unknown whether the call was applied.
type Reply struct {
	Value any
	Err   error
}

// UnknownScript reports whether the server refused EVALSHA because it does not know the script. In
// that case nothing was run, and the client sends EVAL next.
func (r Reply) UnknownScript() bool {
	refused, ok := errors.AsType[Error](r.Err)
	return ok && refused.Code() == "NOSCRIPT"
}

// Pairs converts a RESP3 map to the alternating names and values of RESP2. They are in map order,
// which is random.
func Pairs[K comparable](m map[K]any) []any {
	pairs := make([]any, 0, 2*len(m))
	for name, value := range m {
		pairs = append(pairs, name, value)
	}
	return pairs
}

// Error is a refusal of the server: its text, which begins with a code such as NOSCRIPT, READONLY
// or OOM. Either the call was not applied, or the script ended where the error occurred.
type Error string

// Error returns the text after "redis: ".
func (e Error) Error() string { return "redis: " + string(e) }

// Code returns the first word. It returns NOPERM if a script was refused one of its commands, for
// which servers write ERR.
func (e Error) Code() string {
	for _, text := range [...]string{"user executing the script can't run", "ACL failure in script"} {
		// of 7.0, and later
		if strings.Contains(string(e), text) {
			return "NOPERM"
		}
	}
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Client runs one script on the node that owns Keys[0]: by EVALSHA, and by EVAL if the server does
// not know the script. It returns no later than its context ends. Once a byte of a call may have
// reached the server, the client must not send it again by itself, unless the call is safe to
// repeat. All scripts of this project are safe to repeat, except that a repeated call may be
// counted twice for limits. (A repeated script of httpidem/token/classic may refuse a token that
// was not used yet; it never accepts one twice.)
type Client interface {
	Eval(context.Context, Call) Reply
}

// Pipeliner runs calls in one round trip for each node, plus a second one if a server does not know
// a script. Replies are in the order of the calls. Each call can fail separately. The calls run in
// no particular order: calls for the same key must be in different batches.
type Pipeliner interface {
	EvalMany(context.Context, []Call) []Reply
}

// Joiner is a Pipeliner that makes one run of several calls with Join. Joins reports false if it
// does so only for keys of one slot, since it is a client of a cluster.
type Joiner interface {
	Joins() bool
}

// Subscriber receives messages from a channel, to wake waiters and to drop copies; without it they
// poll. Subscribe calls on for each message, and once with an empty payload when the subscription
// is active. It blocks until ctx ends or the connection is lost.
type Subscriber interface {
	Subscribe(ctx context.Context, channel string, on func(payload string)) error
}

// Nodes calls f for each primary. Lists and the checks at the start need it. Without it they are
// not available, and the store says so.
type Nodes interface {
	EachPrimary(ctx context.Context, f func(ctx context.Context, do func(ctx context.Context, cmd ...string) Reply) error) error
}

// Dialer connects to one server by its address, with the client's user. A store uses it to compare
// the clock of a replica at its start. It closes the connection when f has returned. At ends soon
// after ctx does.
type Dialer interface {
	At(ctx context.Context, addr string, f func(do func(ctx context.Context, cmd ...string) Reply) error) error
}

// Replicated runs a script and WAIT on one connection. A script cannot call WAIT, and on another
// connection WAIT has no meaning. acked is how many replicas have confirmed the script's writes
// within the time.
type Replicated interface {
	EvalWait(ctx context.Context, c Call, replicas int, within time.Duration) (r Reply, acked int)
}
