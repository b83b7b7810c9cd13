package retrysafe

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/lease"
	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/internal/waitroom"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Engine runs work at most once per key (under [Reexecute] at least once) and keeps the records in
// a [storeapi.Store]. It is safe for concurrent use. An application needs one engine per store. An
// engine starts goroutines only while there is work for them; [Engine.Shutdown] ends them.
type Engine struct {
	c          *core
	layer      string
	defaults   *callOptions // options of calls without options; never modified
	doDefaults *callOptions // the same for Do
}

// New returns an engine that keeps its records in s; o may be nil. It panics if s is nil or if
// [Options.Validate] refuses o. It also panics if s is a [storeapi.Sharer] that others may share
// and o has no Namespace.
func New(s storeapi.Store, o *Options) *Engine {
	if s == nil {
		panic("retrysafe: New needs a store; memstore.New(nil) is one in memory")
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	if o == nil {
		o = new(Options)
	}
	if shared, ok := s.(storeapi.Sharer); ok && shared.Shared() && o.Namespace == "" {
		panic(errNoNamespace)
	}
	policy := o.Policy.WithDefaults()
	return newEngine(newCore(s, o), "fn", &policy)
}

var errNoNamespace = errors.New("retrysafe: options: Namespace is not set, and other services may keep their records in this store: " +
	"with one namespace their keys would be answered with the answers of this one; name this service, for example \"shop\"")

func newEngine(c *core, layer string, p *Policy) *Engine {
	o := callOptions{policy: p}
	return &Engine{c: c, layer: layer, defaults: &o, doDefaults: o.withOutlives()}
}

// Layer returns a view of the engine whose keys are separate from those of other layers. A gateway,
// a middleware and a function that use the same key on layers of their own never wait for each
// other. The layers of this project are fn, tx, http, gw, nginx, rpc, mcp, mcp-derived, mq,
// callback, token and sig for calls, and ids, map, data-key, audit, secret and mark for what it
// keeps besides.
func (e *Engine) Layer(name string) *Engine {
	return &Engine{c: e.c, layer: name, defaults: e.defaults, doDefaults: e.doDefaults}
}

// WithPolicy returns a view of the engine with another default policy. A zero field of p keeps the
// engine's value. It panics if [Policy.Validate] refuses the result.
func (e *Engine) WithPolicy(p Policy) *Engine {
	p = p.Or(*e.defaults.policy)
	if err := p.Validate(); err != nil {
		panic(err)
	}
	return newEngine(e.c, e.layer, &p)
}

// Namespace returns the namespace that [Options] set, or its default.
func (e *Engine) Namespace() string { return e.c.namespace }

// Policy returns the policy of calls without options, with every field set.
func (e *Engine) Policy() Policy { return *e.defaults.policy }

// Digest returns the HMAC-SHA-256 of data under [Options].Secret, or its plain SHA-256 if there is
// no secret. It is for data that must be compared but not be read, such as credentials.
func (e *Engine) Digest(data []byte) [sha256.Size]byte { return e.c.secretDigest("credential", data) }

// KeyHash returns a name of the key for logs: 16 hex digits of its keyed digest. It is the same in
// all processes that have the same secret and namespace.
func (e *Engine) KeyHash(k Key) string { return e.c.keyHash(e.storeKey(k)) }

func (e *Engine) storeKey(k Key) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: e.c.namespace, Layer: e.layer, Key: k}
}

// Lookup returns the record of a key, or [ErrNotFound] if there is none.
func (e *Engine) Lookup(ctx context.Context, k Key) (Record, error) {
	key := e.storeKey(k)
	if err := key.Validate(); err != nil {
		return Record{}, &Error{Op: k.Operation, Err: err}
	}
	t, limited := e.c.store.BeginTurn(ctx)
	rec, err := e.c.store.Lookup(limited, key)
	t.End(err)
	switch {
	case err != nil:
		return Record{}, e.c.wrapError(key, 0, storecall.Unavailable(err), time.Second)
	case rec.State == 0:
		return Record{}, e.c.wrapError(key, 0, ErrNotFound, 0)
	}
	takeOrigin(&rec.Answer)
	return rec, nil
}

// Shutdown starts no new attempts, waits for the live ones until ctx ends, and then ends their
// contexts. It never releases their keys, since work that has not returned may still act; their
// leases expire. Calls that wait for another attempt get [ErrClosed] at once. Shutdown ends the
// contexts of transactions of [DoTx] that are still open when ctx ends. It returns nil if
// everything has ended. It does not close the store.
//
// A store call may continue although its context has ended. Shutdown waits for such calls until ctx
// ends, and for at least one second.
func (e *Engine) Shutdown(ctx context.Context) error {
	c := e.c
	idle := c.life.Close()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	var err error
	select {
	case <-idle: // also if ctx had ended before
	default:
		err = fmt.Errorf("retrysafe: shutdown: %d calls had not ended; the keys of their attempts stay taken until the leases lapse: %w",
			c.life.Count(), context.Cause(ctx))
		c.leases.Stop()
	}
	return errors.Join(err, c.life.End(ctx))
}

// PolicyWith returns the policy of a call with opts, with every field set, and an error if opts are
// invalid.
func (e *Engine) PolicyWith(opts ...CallOption) (Policy, error) {
	o := e.defaults.withOptions(opts)
	return *o.policy, o.err
}

// core is what all views of an engine share.
type core struct {
	namespace string
	codec     Codec
	trace     Trace
	logger    *slog.Logger

	secret    []byte
	digesters sync.Pool                          // of *digester
	hashOf    func(key Key, layer string) string // for CallInfo
	warnOnce  sync.Once

	life      *lifetime.Life
	store     *storecall.Store
	claimer   *claim.Claimer
	leases    *lease.Keeper
	waitRooms *waitroom.Rooms
	quotas    *quota.Quotas
	marks     storeMarks

	sweeper    storeapi.Sweeper // nil: the engine never sweeps
	sweepEvery time.Duration
	sweepOnce  sync.Once
}

// newCore returns the core of a new engine.
func newCore(s storeapi.Store, o *Options) *core {
	c := &core{namespace: o.Namespace, secret: slices.Clone(o.Secret), codec: o.Codec, logger: o.Logger, sweepEvery: cmp.Or(o.Sweep, time.Minute)}
	c.digesters.New = func() any { return &digester{mac: hmac.New(sha256.New, c.secret)} }
	c.hashOf = func(key Key, layer string) string {
		return c.keyHash(storeapi.StoreKey{Namespace: c.namespace, Layer: layer, Key: key})
	}
	if c.namespace == "" {
		c.namespace = "app"
	}
	if c.codec == nil {
		c.codec = JSON
	}
	if o.Trace != nil {
		c.trace = *o.Trace
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	var observe storecall.Observe
	if c.trace.Store != nil {
		observe = func(ctx context.Context, op string) func(error) { return c.trace.Store(ctx, StoreInfo{Op: op}) }
	}
	var lapse func(context.Context, storeapi.StoreKey)
	if c.trace.Lapse != nil {
		lapse = func(ctx context.Context, key storeapi.StoreKey) { c.trace.Lapse(ctx, AttemptInfo{Key: key.Key}) }
	}
	c.life = lifetime.New()
	c.store = storecall.New(s, observe, c.logger)
	c.claimer = claim.New(c.store, c.life, lapse)
	c.leases = lease.New(c.store, c.life)
	c.waitRooms = waitroom.New(c.store, c.life)
	c.quotas = quota.New(c.store, c.life)
	if c.sweepEvery > 0 {
		c.sweeper, _ = s.(storeapi.Sweeper)
	}
	return c
}

// enterCall counts a call, and starts the sweeper with the first one.
func (c *core) enterCall() bool {
	if !c.life.Enter() {
		return false
	}
	if c.sweeper != nil {
		c.sweepOnce.Do(func() { c.life.Go(c.sweepExpired) })
	}
	return true
}

const sweepBatch = 500

// sweepExpired removes expired records until the engine ends, or until the store says that it
// cannot do that.
func (c *core) sweepExpired() {
	// Jitter keeps the processes of one store from sweeping all at once.
	for c.life.Sleep(c.sweepEvery/2 + rand.N(c.sweepEvery)) {
		for {
			n, err := c.store.Sweep(c.life.Context(), c.sweeper, sweepBatch)
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			if err != nil || n < sweepBatch {
				break
			}
		}
	}
}

// digester makes digests under the secret of an engine, in memory of its own, so that what callers
// pass stays on their stacks.
type digester struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

func (d *digester) digest(purpose string, data []byte) [sha256.Size]byte {
	d.text = append(appendPurpose(d.text[:0], purpose), data...)
	d.mac.Reset()
	d.mac.Write(d.text)
	d.mac.Sum(d.sum[:0])
	clear(d.text) // it may be a credential
	return d.sum
}

func (c *core) secretDigest(purpose string, data []byte) [sha256.Size]byte {
	if len(c.secret) == 0 {
		c.warnOnce.Do(func() {
			c.logger.Warn("retrysafe: Options.Secret is not set: digests of credentials and keys are plain SHA-256 and can be guessed; set the same random secret on all processes of this store")
		})
		var space [512]byte // most keys and credentials fit
		return sha256.Sum256(append(appendPurpose(space[:0], purpose), data...))
	}
	d := c.digesters.Get().(*digester) //nolint:errcheck // the pool has nothing else
	defer c.digesters.Put(d)
	return d.digest(purpose, data)
}

// appendPurpose appends the purpose of a digest to b, so that a digest for one purpose says nothing
// for another.
func appendPurpose(b []byte, purpose string) []byte {
	return append(append(append(b, "retrysafe "...), purpose...), '\n')
}

// bindingDigest returns the digest of a call's credential.
func (c *core) bindingDigest(credential []byte) []byte {
	if len(credential) == 0 {
		return nil
	}
	sum := c.secretDigest("credential", credential)
	return sum[:]
}

func (c *core) keyHash(k storeapi.StoreKey) string {
	var space [256]byte
	text, _ := k.AppendText(space[:0])
	sum := c.secretDigest("key", text)
	return hex.EncodeToString(sum[:8])
}

// wrapError returns the error that callers see.
func (c *core) wrapError(k storeapi.StoreKey, attempt int, err error, after time.Duration) *Error {
	return &Error{Op: k.Operation, Key: c.keyHash(k), Attempt: attempt, Err: err, RetryAfter: after}
}
