package retrysafe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	"github.com/retrysafe/retrysafe/storeapi"
)

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

	life    *lifetime.Life
	store   *storecall.Store
	claims  *claim.Claims
	leases  *lease.Keeper
	waiting *waitroom.Waiting
	quotas  *quota.Quotas

	sweepEvery time.Duration // negative: never
	sweepOnce  sync.Once
}

// newCore returns the core of a new engine.
func newCore(s storeapi.Store, o *Options) *core {
	c := &core{namespace: o.Namespace, secret: slices.Clone(o.Secret), codec: o.Codec, logger: o.Logger, sweepEvery: o.Sweep}
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
	c.claims = claim.New(c.store, c.life, lapse)
	c.leases = lease.New(c.store, c.life)
	c.waiting = waitroom.New(c.store, c.life)
	c.quotas = quota.New(c.store, c.life)
	return c
}

// enter counts a call, and starts the sweeper with the first one.
func (c *core) enter() bool {
	if !c.life.Enter() {
		return false
	}
	if sweeper, can := c.store.Inner().(storeapi.Sweeper); can && c.sweepEvery >= 0 {
		c.sweepOnce.Do(func() { c.life.Go(func() { c.sweep(sweeper) }) })
	}
	return true
}

const sweepBatch = 500

// sweep removes expired records until the engine ends, or until the store says that it cannot do
// that.
func (c *core) sweep(s storeapi.Sweeper) {
	every := c.sweepEvery
	if every == 0 {
		every = time.Minute
	}
	// Jitter keeps the processes of one store from sweeping all at once.
	for c.life.Sleep(every/2 + rand.N(every)) {
		for {
			n, err := c.store.Sweep(c.life.Context(), s, sweepBatch)
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
	d.text = append(named(d.text[:0], purpose), data...)
	d.mac.Reset()
	d.mac.Write(d.text)
	d.mac.Sum(d.sum[:0])
	clear(d.text) // it may be a credential
	return d.sum
}

func (c *core) digest(purpose string, data []byte) [sha256.Size]byte {
	if len(c.secret) == 0 {
		c.warnOnce.Do(func() {
			c.logger.Warn("retrysafe: Options.Secret is not set: digests of credentials and keys are plain SHA-256 and can be guessed; set the same random secret on all processes of this store")
		})
		var space [512]byte // most keys and credentials fit
		return sha256.Sum256(append(named(space[:0], purpose), data...))
	}
	d := c.digesters.Get().(*digester) //nolint:errcheck // the pool has nothing else
	defer c.digesters.Put(d)
	return d.digest(purpose, data)
}

// named appends the purpose of a digest to b, so that a digest for one purpose says nothing for
// another.
func named(b []byte, purpose string) []byte {
	return append(append(append(b, "retrysafe "...), purpose...), '\n')
}

// binding returns the digest of a call's credential, or nil without one.
func (c *core) binding(credential []byte) []byte {
	if len(credential) == 0 {
		return nil
	}
	sum := c.digest("credential", credential)
	return sum[:]
}

func (c *core) keyHash(k storeapi.StoreKey) string {
	var space [256]byte
	text, _ := k.AppendText(space[:0])
	sum := c.digest("key", text)
	return hex.EncodeToString(sum[:8])
}

// wrap returns the error that callers see.
func (c *core) wrap(k storeapi.StoreKey, attempt int, err error, after time.Duration) *Error {
	return &Error{Op: k.Operation, Key: c.keyHash(k), Attempt: attempt, Err: err, RetryAfter: after}
}
