package retrysafe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	policy := o.Policy.WithDefaults()
	return newEngine(newCore(newRuntime(s, o)), "fn", &policy)
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

// PolicyWith returns the policy that a call with opts goes by, every field filled, and what is
// wrong with opts.
func (e *Engine) PolicyWith(opts ...CallOption) (Policy, error) {
	o := e.callOptions(opts)
	return *o.policy, o.err
}

// callOptions returns what a call with opts goes by. Without options that is shared and costs
// nothing.
func (e *Engine) callOptions(opts []CallOption) *callOptions { return e.defaults.with(opts) }
