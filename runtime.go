package retrysafe

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// runtime is what everything that outlives one call shares: the store and its clock, the secret,
// the trace, the lifecycle and the background goroutines.
type runtime struct {
	store     storeapi.Store
	namespace string
	secret    []byte
	digesters sync.Pool                          // of *digester
	hashOf    func(key Key, layer string) string // for CallInfo
	codec     Codec
	trace     Trace
	logger    *slog.Logger
	warnOnce  sync.Once

	clock    storeClock
	patience patience
	life     life

	// ctx ends when Shutdown stops waiting, or has finished. Background goroutines stop then, and
	// Shutdown waits for them.
	ctx        context.Context
	stop       context.CancelFunc
	background background
}

// newRuntime returns the runtime of a new engine.
func newRuntime(s storeapi.Store, o *Options) *runtime {
	rt := &runtime{
		store: s, namespace: o.Namespace, secret: slices.Clone(o.Secret), codec: o.Codec, logger: o.Logger,
	}
	rt.digesters.New = func() any { return &digester{mac: hmac.New(sha256.New, rt.secret)} }
	rt.hashOf = func(key Key, layer string) string {
		return rt.keyHash(storeapi.StoreKey{Namespace: rt.namespace, Layer: layer, Key: key})
	}
	if rt.namespace == "" {
		rt.namespace = "app"
	}
	if rt.codec == nil {
		rt.codec = JSON
	}
	if o.Trace != nil {
		rt.trace = *o.Trace
	}
	if rt.logger == nil {
		rt.logger = slog.Default()
	}
	rt.clock.base, rt.patience.logger = time.Now(), rt.logger
	rt.life.sweep, rt.life.closing = o.Sweep, make(chan struct{})
	rt.ctx, rt.stop = context.WithCancel(context.Background())
	return rt
}

// digester makes digests under the secret of a runtime, in memory of its own, so that what callers
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

func (rt *runtime) digest(purpose string, data []byte) [sha256.Size]byte {
	if len(rt.secret) == 0 {
		rt.warnOnce.Do(func() {
			rt.logger.Warn("retrysafe: Options.Secret is not set: digests of credentials and keys are plain SHA-256 and can be guessed; set the same random secret on all processes of this store")
		})
		var space [512]byte // most keys and credentials fit
		return sha256.Sum256(append(named(space[:0], purpose), data...))
	}
	d := rt.digesters.Get().(*digester) //nolint:errcheck // the pool has nothing else
	defer rt.digesters.Put(d)
	return d.digest(purpose, data)
}

// named appends the purpose of a digest to b, so that a digest for one purpose says nothing for
// another.
func named(b []byte, purpose string) []byte {
	return append(append(append(b, "retrysafe "...), purpose...), '\n')
}

// binding returns the digest of a call's credential, or nil without one.
func (rt *runtime) binding(credential []byte) []byte {
	if len(credential) == 0 {
		return nil
	}
	sum := rt.digest("credential", credential)
	return sum[:]
}

func (rt *runtime) keyHash(k storeapi.StoreKey) string {
	var space [256]byte
	text, _ := k.AppendText(space[:0])
	sum := rt.digest("key", text)
	return hex.EncodeToString(sum[:8])
}

// wrap returns the error that callers see.
func (rt *runtime) wrap(k storeapi.StoreKey, attempt int, err error, after time.Duration) *Error {
	return &Error{Op: k.Operation, Key: rt.keyHash(k), Attempt: attempt, Err: err, RetryAfter: after}
}

func newOwner() (o storeapi.Owner) {
	_, _ = rand.Read(o[:]) // never returns an error: it would end the process
	return o
}

func (rt *runtime) lookup(ctx context.Context, key storeapi.StoreKey) (Record, error) {
	sent := time.Now()
	done := rt.trace.store(ctx, "lookup")
	rec, err := rt.store.Lookup(ctx, key)
	done.with(err)
	if err == nil {
		rt.clock.learn(rec.Now, sent)
	}
	return rec, err
}

// readClock reads the store's clock by looking up a key; any key will do.
func (rt *runtime) readClock(ctx context.Context, key storeapi.StoreKey) error {
	ctx, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	_, err := rt.lookup(ctx, key)
	return err
}

// enter counts a call, and starts the sweeper with the first one.
func (rt *runtime) enter() bool {
	ok, first := rt.life.enter()
	if first {
		if s, can := rt.store.(storeapi.Sweeper); can {
			rt.background.start(func() { rt.runSweeper(s) })
		}
	}
	return ok
}

// sleep waits for d. It returns false if the engine ends first.
func (rt *runtime) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-rt.ctx.Done():
		return false
	}
}
