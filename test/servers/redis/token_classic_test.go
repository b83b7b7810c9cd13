package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/httpidem/token/classic"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// taker is what both kinds of classic tokens implement.
type taker interface {
	Issue(ctx context.Context, tenant string) (string, error)
	Take(ctx context.Context, tenant, token string) error
}

func classicTokens(c redisclient.Client, o *classic.Options) map[string]taker {
	return map[string]taker{"deletion": classic.NewDeletion(c, o), "count": classic.NewCount(c, o)}
}

// TestClassicTokens: of many concurrent calls one passes. A token that is unknown, expired or
// another tenant's does not pass, and spends nothing.
func TestClassicTokens(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	for adapter, connect := range servers.RedisClients {
		client := connect(t, "redis://"+server.Addr)
		for kind, tokens := range classicTokens(client, &classic.Options{Namespace: adapter}) {
			t.Run(adapter+" "+kind, func(t *testing.T) {
				t.Parallel()
				text := issueToken(t, tokens)
				assert.ErrorIs(t, tokens.Take(t.Context(), "bob", text), retrysafe.ErrNotIssued, "another's")
				for range 3 {
					assert.ErrorIs(t, tokens.Take(t.Context(), "ann", "never issued"), retrysafe.ErrNotIssued, "unknown")
				}
				assert.Equal(t, waits.AtOnce(50, func() error { return tokens.Take(t.Context(), "ann", text) }), 1, "of 50 at once")
				want := map[string]error{"deletion": retrysafe.ErrNotIssued, "count": classic.ErrTaken}[kind]
				assert.ErrorIs(t, tokens.Take(t.Context(), "ann", text), want, "a repeat")

				short := classicTokens(client, &classic.Options{Namespace: adapter, Life: time.Millisecond})[kind]
				text = issueToken(t, short)
				waits.Eventually(t, "the token expires", func() bool {
					return !strings.Contains(servers.RedisDo(server.Addr, "KEYS", "rs-classic:*"), text)
				})
				assert.ErrorIs(t, tokens.Take(t.Context(), "ann", text), retrysafe.ErrNotIssued, "expired")
			})
		}
	}
}

func issueToken(t *testing.T, tokens taker) string {
	t.Helper()
	text, err := tokens.Issue(t.Context(), "ann")
	assert.NoError(t, err, "issue")
	return text
}

// TestClassicMistakes makes the two well-known mistakes on purpose, with plain commands.
func TestClassicMistakes(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	t.Run("select, then delete", func(t *testing.T) {
		t.Parallel()
		servers.RedisDo(server.Addr, "SET", "token", "ann")
		var looked sync.WaitGroup
		looked.Add(20)
		passed := waits.AtOnce(20, func() error {
			found := servers.RedisDo(server.Addr, "GET", "token") == "ann"
			looked.Done()
			looked.Wait() // what may happen by chance
			if !found {
				return retrysafe.ErrNotIssued
			}
			servers.RedisDo(server.Addr, "DEL", "token")
			return nil
		})
		assert.Equal(t, passed, 20, "that pass by looking first and deleting then")
	})
	t.Run("INCR of an unknown token", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, servers.RedisDo(server.Addr, "INCR", "never issued"), "1", "the first try, which is refused")
		assert.Equal(t, servers.RedisDo(server.Addr, "INCR", "never issued"), "2", "the second, which looks like the first use of a token")
	})
}

// issuerOn returns an issuer whose tokens know the outcome of their work.
func issuerOn(t *testing.T, c redisclient.Client, lease time.Duration) *token.Issuer {
	t.Helper()
	return token.NewIssuer(teststores.ShortEngine(t, teststores.Redis(t, c, nil), retrysafe.Policy{Lease: lease}), nil)
}

// TestClassicFailureIsLost: the work certainly fails, and the answer that says so is lost. The
// retry of a classic token is refused although nothing happened; with token.Do the same token runs.
// If the work succeeds and the answer is lost, a classic retry is refused too, and token.Do replays
// the first answer.
func TestClassicFailureIsLost(t *testing.T) {
	t.Parallel()
	client := servers.RueidisTo(t, servers.StartRedis(t).Addr)
	failure := func(context.Context) error { return errFaultWork }
	deletion := classic.NewDeletion(client, nil)
	text := issueToken(t, deletion)
	assert.ErrorIs(t, deletion.Run(t.Context(), "ann", text, failure), errFaultWork, "an answer that is lost")
	var w work
	again := func(ctx context.Context) error { _, err := w.run(ctx); return err }
	assert.ErrorIs(t, deletion.Run(t.Context(), "ann", text, again), retrysafe.ErrNotIssued, "the retry")
	count := classic.NewCount(client, nil)
	text = issueToken(t, count)
	assert.NoError(t, count.Take(t.Context(), "ann", text), "work that fails follows, and its answer is lost")
	assert.ErrorIs(t, count.Take(t.Context(), "ann", text), classic.ErrTaken, "the retry")
	assert.Equal(t, w.runs.Load(), int64(0), "runs of work that nobody has done")

	tokens := issuerOn(t, client, time.Minute)
	text = issueToken(t, tokens)
	_, err := token.Do(t.Context(), tokens, "ann", text, func(context.Context) (int64, error) { return 0, retrysafe.NothingDone(errFaultWork) })
	assert.ErrorIs(t, err, errFaultWork, "an answer that is lost")
	res, err := token.Do(t.Context(), tokens, "ann", text, w.run)
	assert.NoError(t, err, "the retry runs; its answer is lost")
	assert.Equal(t, res.Value, int64(1), "answer")
	res, err = token.Do(t.Context(), tokens, "ann", text, w.run)
	assert.NoError(t, err, "the next retry")
	assert.True(t, res.Replayed && res.Value == 1 && w.runs.Load() == 1, "it is told the first answer: %+v", res)
}

func (d *takeOnly) Take(ctx context.Context, tenant, text string) error {
	return d.Issuer.Take(ctx, tenant, text)
}

// takeOnly is token.Issuer as a taker.
type takeOnly struct{ *token.Issuer }

// TestClassicReplyIsLost: the reply to Take is lost. A classic token is spent, and no caller may
// work. The owner of a token with a record can repeat the call.
func TestClassicReplyIsLost(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		p := servers.StartRedisProxy(t, server.Addr)
		client := p.Through(t, adapter)
		scripts := map[string]string{"deletion": "deletion-take", "count": "count-take", "record": "acquire"}
		kinds := classicTokens(client, &classic.Options{Namespace: adapter})
		kinds["record"] = &takeOnly{issuerOn(t, client, time.Minute)}
		for kind, tokens := range kinds { // one after the other: they share the proxy
			_ = tokens.Take(t.Context(), "ann", "unknown") // so that the server knows the script
			text := issueToken(t, tokens)
			p.SetHook(func(name string, n int) servers.Cut {
				if name == scripts[kind] && n == 1 {
					return servers.LoseReply
				}
				return 0
			})
			err := tokens.Take(t.Context(), "ann", text)
			p.SetHook(nil)
			again := tokens.Take(t.Context(), "ann", text)
			if kind == "record" {
				assert.NoError(t, err, "%s %s", adapter, kind)
				assert.ErrorIs(t, again, retrysafe.ErrDuplicate, "%s %s", adapter, kind)
				continue
			}
			assert.True(t, err != nil && again != nil, "%s %s: nobody may work: %v, %v", adapter, kind, err, again)
		}
	}
}

// init registers a process that takes a token, begins to work and dies.
func init() {
	child.Parts["dies with a token"] = func(args []string) error {
		addr, kind, text := args[0], args[1], args[2]
		a, err := redisclient.ParseURL("redis://" + addr)
		if err != nil {
			return err
		}
		client, err := rueidisclient.Open(a)
		if err != nil {
			return err
		}
		ctx := context.Background()
		deadly := func(context.Context) error { child.Die(); return nil }
		if kind == "classic" {
			return classic.NewDeletion(client, nil).Run(ctx, "ann", text, deadly)
		}
		store, err := redisstore.New(ctx, client, nil)
		if err != nil {
			return err
		}
		// It must expire.
		e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Policy: retrysafe.Policy{Lease: 3 * time.Second}})
		_, err = token.Run(ctx, token.NewIssuer(e, nil), "ann", text, deadly)
		fmt.Fprintln(os.Stderr, "it has not died")
		return err
	}
}

// TestClassicProcessDies: delete first, and the process dies while it works. Nothing is left to
// report it, and the retry is refused like a duplicate of finished work. With token.Do a retry
// learns that the outcome is unknown; after an operator has found that nothing was done, the same
// token runs.
func TestClassicProcessDies(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	client := servers.RueidisTo(t, server.Addr)
	deletion := classic.NewDeletion(client, nil)
	text := issueToken(t, deletion)
	assert.True(t, child.Start(t, "dies with a token", server.Addr, "classic", text).Wait(t), "it dies")
	var w work
	run := func(ctx context.Context) error { _, err := w.run(ctx); return err }
	assert.ErrorIs(t, deletion.Run(t.Context(), "ann", text, run), retrysafe.ErrNotIssued, "the retry")
	assert.Equal(t, servers.RedisDo(server.Addr, "KEYS", "rs-classic:*"), "[]", "what is left of it")

	tokens := issuerOn(t, client, time.Minute)
	text = issueToken(t, tokens)
	assert.True(t, child.Start(t, "dies with a token", server.Addr, "record", text).Wait(t), "it dies")
	waits.Eventually(t, "the retry is told of the doubt", func() bool {
		_, err := token.Run(t.Context(), tokens, "ann", text, run)
		assert.True(t, errors.Is(err, retrysafe.ErrInProgress) || errors.Is(err, retrysafe.ErrInDoubt), "a retry: %v", err)
		return errors.Is(err, retrysafe.ErrInDoubt)
	})
	key := tokens.Key("ann", text)
	rec, err := tokens.Engine().Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	err = tokens.Engine().Resolve(t.Context(), key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone})
	assert.NoError(t, err, "resolve")
	_, err = token.Run(t.Context(), tokens, "ann", text, run)
	assert.NoError(t, err, "the same token, once it is known that nothing was done")
	assert.Equal(t, w.runs.Load(), int64(1), "runs")
}

// TestClassicLock: one at a time, as long as the lock is held. A duplicate after that runs again,
// and so does one beside work that takes longer than the lock's life: two at once. token.Do replays
// the answer to the first, and keeps the second out.
func TestClassicLock(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	client := servers.RueidisTo(t, server.Addr)
	lock := classic.NewLock(client, nil)
	var w work
	run := func(ctx context.Context) error { _, err := w.run(ctx); return err }
	err := lock.Run(t.Context(), "order", func(ctx context.Context) error {
		assert.ErrorIs(t, lock.Run(ctx, "order", run), retrysafe.ErrInProgress, "beside one that works")
		return run(ctx)
	})
	assert.NoError(t, err, "the first")
	assert.NoError(t, lock.Run(t.Context(), "order", run), "a repeat after it")
	assert.Equal(t, w.runs.Load(), int64(2), "runs under a lock")

	brief := classic.NewLock(client, &classic.Options{Life: 50 * time.Millisecond})
	inside := 0
	err = brief.Run(t.Context(), "slow", func(ctx context.Context) error {
		inside++
		waits.Eventually(t, "the lock ends before the work does", func() bool {
			// its own lock may end too
			_ = brief.Run(ctx, "slow", func(context.Context) error { inside++; return nil })
			return inside == 2
		})
		return nil
	})
	assert.Equal(t, inside, 2, "at work at the same time")
	assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "what the first is told, too late")

	// Another caller's lock is not released together with one's own.
	err = brief.Run(t.Context(), "other's", func(ctx context.Context) error {
		waits.Eventually(t, "it ends", func() bool {
			return servers.RedisDo(server.Addr, "SET", "rs-classic:app/classic//lock/other%27s", "bob", "NX") == "OK"
		})
		return nil
	})
	assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "a lock that is another's by now")
	assert.Equal(t, servers.RedisDo(server.Addr, "GET", "rs-classic:app/classic//lock/other%27s"), "bob", "the other's lock")

	tokens := issuerOn(t, client, 12*time.Second)
	text := issueToken(t, tokens)
	_, err = token.Run(t.Context(), tokens, "ann", text, func(ctx context.Context) error {
		last := waits.Long
		waits.Eventually(t, "the lease is renewed", func() bool {
			_, err := token.Run(ctx, tokens, "ann", text, run)
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "beside work that takes its time")
			rec, err := tokens.Engine().Lookup(ctx, tokens.Key("ann", text))
			assert.NoError(t, err, "look")
			renewed := rec.LeaseLeft > last
			last = rec.LeaseLeft
			return renewed
		})
		return ctx.Err()
	})
	assert.NoError(t, err, "slow work")
	replayed, err := token.Run(t.Context(), tokens, "ann", text, run)
	assert.True(t, replayed && err == nil && w.runs.Load() == 2, "a repeat after it: %v %v", replayed, err)
}
