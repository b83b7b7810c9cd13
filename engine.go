package retrysafe

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Engine runs work at most (or at least) once per key, on a [Store]. It is safe for concurrent use;
// an application has one per store. It starts goroutines only while there is work for them;
// Shutdown ends them.
type Engine struct {
	c        *core
	layer    string
	defaults *callOptions // of calls without options; never changed
	ofDo     *callOptions // the same of Do
}

// core is what all views of an engine share.
type core struct {
	store     Store
	namespace string
	secret    []byte
	macs      sync.Pool // of HMAC under secret
	codec     Codec
	trace     Trace
	logger    *slog.Logger
	warnOnce  sync.Once

	clock    storeClock
	life     life
	beat     heartbeat
	waiting  waitRoom
	giveBack givingBack
	charges  chan struct{} // of those that are under way in the background

	// ctx ends when Shutdown gives up waiting, or is through; background goroutines go by it, and
	// it waits for them.
	ctx        context.Context
	stop       context.CancelFunc
	background background
}

// New returns an engine on s. It panics on options that [Options.Validate] refuses.
func New(s Store, o *Options) *Engine {
	if s == nil {
		panic("retrysafe: New needs a store; memstore.New(nil) is one in memory")
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	if o == nil {
		o = new(Options)
	}
	if shared, ok := s.(Sharer); ok && shared.Shared() && o.Namespace == "" {
		panic(errNoNamespace)
	}
	c := &core{
		store: s, namespace: o.Namespace, secret: slices.Clone(o.Secret), codec: o.Codec, logger: o.Logger,
	}
	c.macs.New = func() any { return hmac.New(sha256.New, c.secret) }
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
	c.clock.base = time.Now()
	c.beat = heartbeat{core: c, kick: make(chan struct{}, 1)}
	c.waiting = waitRoom{core: c, rooms: make(map[waitKey]*room)}
	c.giveBack.core = c
	c.charges = make(chan struct{}, chargesAtOnce)
	c.life.sweep, c.life.closing = o.Sweep, make(chan struct{})
	c.ctx, c.stop = context.WithCancel(context.Background())
	policy := o.Policy.WithDefaults()
	return newEngine(c, "fn", &policy)
}

var errNoNamespace = errors.New("retrysafe: options: Namespace is not set, and other services may keep their records in this store: " +
	"with one namespace their keys would be answered with the answers of this one; name this service, for example \"shop\"")

func newEngine(c *core, layer string, p *Policy) *Engine {
	o := callOptions{policy: p}
	return &Engine{c: c, layer: layer, defaults: &o, ofDo: o.outliving()}
}

// Layer is a view of the engine whose keys live apart, for a surface of its own: a gateway, a
// middleware and a function that see one key never wait for each other. The layers of this project
// are fn http gw tx mq rpc token step sig.
func (e *Engine) Layer(name string) *Engine {
	return &Engine{c: e.c, layer: name, defaults: e.defaults, ofDo: e.ofDo}
}

// WithPolicy is a view of the engine with other defaults; a zero field of p keeps the present one.
// It panics on a policy that [Policy.Validate] refuses.
func (e *Engine) WithPolicy(p Policy) *Engine {
	p = p.Or(*e.defaults.policy)
	if err := p.Validate(); err != nil {
		panic(err)
	}
	return newEngine(e.c, e.layer, &p)
}

// Namespace is that of Options, or its default.
func (e *Engine) Namespace() string { return e.c.namespace }

// Policy returns the policy that calls without options go by, every field filled.
func (e *Engine) Policy() Policy { return *e.defaults.policy }

// Digest is HMAC-SHA-256 of data under Options.Secret, or plain SHA-256 without one: for what must
// be told apart but not be read, such as credentials.
func (e *Engine) Digest(data []byte) [sha256.Size]byte { return e.c.digest("credential", data) }

// KeyHash names a key in logs: 16 hex digits of its keyed digest. It is the same in all processes
// with one secret and namespace.
func (e *Engine) KeyHash(k Key) string { return e.c.keyHash(e.storeKey(k)) }

func (e *Engine) storeKey(k Key) StoreKey {
	return StoreKey{Namespace: e.c.namespace, Layer: e.layer, Key: k}
}

func (c *core) digest(purpose string, data []byte) (sum [sha256.Size]byte) {
	if len(c.secret) == 0 {
		c.warnOnce.Do(func() {
			c.logger.Warn("retrysafe: Options.Secret is not set: digests of credentials and keys are plain SHA-256 and can be guessed; set the same random secret on all processes of this store")
		})
		var space [512]byte // most keys and credentials fit
		return sha256.Sum256(append(named(space[:0], purpose), data...))
	}
	mac := c.macs.Get().(hash.Hash) //nolint:errcheck,forcetypeassert // the pool has nothing else
	mac.Reset()
	var space [64]byte
	mac.Write(named(space[:0], purpose))
	mac.Write(data)
	mac.Sum(sum[:0])
	c.macs.Put(mac)
	return sum
}

// named begins what is digested with what it is for, so that a digest for one purpose says nothing
// for another.
func named(b []byte, purpose string) []byte {
	return append(append(append(b, "retrysafe "...), purpose...), '\n')
}

// binding is the digest of the credential that a call came with, or nil.
func (c *core) binding(o *callOptions) []byte {
	if len(o.binding) == 0 {
		return nil
	}
	sum := c.digest("credential", o.binding)
	return sum[:]
}

func (c *core) keyHash(k StoreKey) string {
	var space [256]byte
	text, _ := k.AppendText(space[:0])
	sum := c.digest("key", text)
	return hex.EncodeToString(sum[:8])
}

// wrap makes the error that callers see.
func (c *core) wrap(k StoreKey, attempt int, err error, after time.Duration) *Error {
	return &Error{Op: k.Operation, Key: c.keyHash(k), Attempt: attempt, Err: err, RetryAfter: after}
}

func newOwner() (o Owner) {
	_, _ = rand.Read(o[:]) // never fails: it would end the process
	return o
}

// Lookup returns what is known of a key. [ErrNotFound] where nothing is.
func (e *Engine) Lookup(ctx context.Context, k Key) (Record, error) {
	key := e.storeKey(k)
	if err := key.Validate(); err != nil {
		return Record{}, &Error{Op: k.Operation, Err: err}
	}
	rec, err := e.c.lookup(ctx, key)
	switch {
	case err != nil:
		return Record{}, e.c.wrap(key, 0, unavailable(err), time.Second)
	case rec.State == 0:
		return Record{}, e.c.wrap(key, 0, ErrNotFound, 0)
	}
	return rec, nil
}

func (c *core) lookup(ctx context.Context, key StoreKey) (Record, error) {
	sent := time.Now()
	done := c.trace.store(ctx, "lookup")
	rec, err := c.store.Lookup(ctx, key)
	done(err)
	if err == nil {
		c.clock.learn(rec.Now, sent)
	}
	return rec, err
}

// Shutdown takes no new attempts, waits for the live ones until ctx ends, and then ends their
// contexts. It never releases them: work that did not return may still act, so their leases lapse.
// Calls that wait for others are told [ErrClosed] at once; transactions of DoTx that are open at
// the end of ctx have their contexts ended. It returns nil when all have ended, and does not close
// the store.
//
// Calls of the store that go on although their contexts have ended are waited for until ctx ends,
// and a second at least.
func (e *Engine) Shutdown(ctx context.Context) error {
	c := e.c
	idle := c.life.close()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	var err error
	select {
	case <-idle: // also where ctx had ended before
	default:
		err = fmt.Errorf("retrysafe: shutdown: %d calls had not ended; the keys of their attempts stay taken until the leases lapse: %w",
			c.life.count(), context.Cause(ctx))
		c.beat.stopAll()
	}
	c.stop()
	if !c.background.end(ctx, shutdownGrace) {
		err = errors.Join(err, errStoreHangs)
	}
	return err
}
