package guards_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// docs/pitfalls.md shows what is between "snippet" and "end" unchanged. Each snippet is wrong, and
// the test after it shows how.

// snippet: select-then-delete
func takeToken(ctx context.Context, rdb *redis.Client, token, user string) (bool, error) {
	owner, err := rdb.Get(ctx, "token:"+token).Result()
	if err != nil || owner != user {
		return false, err
	}
	return true, rdb.Del(ctx, "token:"+token).Err()
}

// end

// TestPitfallSelectThenDelete: two clicks on one button both find the token.
func TestPitfallSelectThenDelete(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	rdb.Set(t.Context(), "token:t", "ann", time.Minute)
	rdb.AddHook(behind{"get", meetingOf(2)})
	assert.Equal(t, countPassing(2, func() (bool, error) { return takeToken(t.Context(), rdb, "t", "ann") }), 2, "presses that pass with one token")
}

// snippet: incr-unknown-token
func firstUse(ctx context.Context, rdb *redis.Client, token string) (bool, error) {
	n, err := rdb.Incr(ctx, "token:"+token).Result() // its issuer has set it to 1
	return n == 2, err
}

// end

// TestPitfallIncrOfAnUnknownToken: a token that was never issued passes at its second try.
func TestPitfallIncrOfAnUnknownToken(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	for try, want := range []bool{false, true} {
		passed, err := firstUse(t.Context(), rdb, "invented")
		assert.NoError(t, err, "try %d", try)
		assert.Equal(t, passed, want, "try %d of an invented token", try)
	}
}

// snippet: get-then-set
func firstCall(ctx context.Context, rdb *redis.Client, id string) (bool, error) {
	n, err := rdb.Exists(ctx, "done:"+id).Result()
	if err != nil || n == 1 {
		return false, err
	}
	return true, rdb.Set(ctx, "done:"+id, "1", time.Hour).Err()
}

// end

// TestPitfallGetThenSet: two concurrent calls are both the first.
func TestPitfallGetThenSet(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	rdb.AddHook(behind{"exists", meetingOf(2)})
	assert.Equal(t, countPassing(2, func() (bool, error) { return firstCall(t.Context(), rdb, "order-1") }), 2, "first calls")
}

// snippet: lock-always-true
func addLock(ctx context.Context, rdb *redis.Client, key string) bool {
	err := rdb.SetNX(ctx, key, "1", 30*time.Second).Err()
	return err == nil
}

// end

// TestPitfallLockIsAlwaysTrue: the absence of an error does not mean that the lock was acquired.
func TestPitfallLockIsAlwaysTrue(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	for _, who := range []string{"the first", "the second"} {
		assert.True(t, addLock(t.Context(), rdb, "lock"), "%s is told that it has the lock", who)
	}
}

var errBusy = errors.New("somebody works on it")

// snippet: script-does-not-compile
const release = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0`

func onMessage(ctx context.Context, rdb *redis.Client, id, owner string, work func() error) error {
	won, err := rdb.SetNX(ctx, "msg:"+id, owner, 30*time.Second).Result()
	if err != nil {
		return err
	}
	if !won {
		return errBusy
	}
	if err := work(); err != nil {
		rdb.Eval(ctx, release, []string{"msg:" + id}, owner)
		return err // the broker redelivers it: five times, 3 s apart
	}
	return nil
}

// end

// TestPitfallScriptDoesNotCompile: work that fails once is never retried, since the lock outlives
// all redeliveries, and the message is lost.
func TestPitfallScriptDoesNotCompile(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	runs := 0
	for delivery := range 6 { // one, and five more
		err := onMessage(t.Context(), rdb, "m", "me", func() error { runs++; return errors.New("the database is away for a moment") })
		assert.Equal(t, errors.Is(err, errBusy), delivery > 0, "delivery %d: %v", delivery, err)
	}
	assert.Equal(t, runs, 1, "times that the work was tried")
	assert.Equal(t, rdb.Exists(t.Context(), "msg:m").Val(), int64(1), "the lock, which lives for 30 s, and so outlives five times 3 s")
	assert.Contains(t, rdb.Eval(t.Context(), release, []string{"k"}, "v").Err().Error(), "Error compiling script", "what nobody has read")
}

const compareAndDelete = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

// snippet: value-is-the-message-id
func consume(ctx context.Context, rdb *redis.Client, id string, work func()) error {
	won, err := rdb.SetNX(ctx, "msg:"+id, id, 30*time.Second).Result()
	if err != nil || !won {
		return errors.Join(err, errBusy)
	}
	defer rdb.Eval(ctx, compareAndDelete, []string{"msg:" + id}, id)
	work()
	return nil
}

// end

// TestPitfallValueIsTheMessageID: all consumers of a message have the same value, so a slow one
// releases the lock of the next.
func TestPitfallValueIsTheMessageID(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	slow := func(work func()) error { return consume(t.Context(), rdb, "m", work) }
	assert.Equal(t, twoAfterASlowOne(t, rdb, "msg:m", slow), 2, "consumers at work at once, when the slow one has long ended")
}

// snippet: delete-whatever-lock
func withLock(ctx context.Context, rdb *redis.Client, key string, work func()) error {
	won, err := rdb.SetNX(ctx, key, "1", 30*time.Second).Result()
	if err != nil || !won {
		return errors.Join(err, errBusy)
	}
	defer rdb.Del(ctx, key)
	work()
	return nil
}

// end

// TestPitfallDeletesAnothersLock: a holder whose lock has expired deletes the lock of the next
// holder.
func TestPitfallDeletesAnothersLock(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	assert.Equal(t, twoAfterASlowOne(t, rdb, "lock", func(work func()) error { return withLock(t.Context(), rdb, "lock", work) }), 2, "holders at once")
}

// twoAfterASlowOne lets the lock of a slow holder expire, a second acquire it, the slow one end,
// and a third try. It returns how many of the last two work at the same time.
func twoAfterASlowOne(t *testing.T, rdb *redis.Client, key string, hold func(work func()) error) (most int32) {
	t.Helper()
	var at, seen atomic.Int32
	err := hold(func() {
		rdb.Del(t.Context(), key) // it has expired
		second, go2 := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_ = hold(func() { at.Add(1); close(second); <-go2; at.Add(-1) })
		})
		<-second
		t.Cleanup(func() { all.Wait() })
		t.Cleanup(func() { close(go2) })
	})
	assert.NoError(t, err, "the slow one")
	_ = hold(func() { seen.Store(at.Add(1)); at.Add(-1) })
	return seen.Load()
}

// snippet: setnx-then-expire
func lockInTwoSteps(ctx context.Context, rdb *redis.Client, key string) (bool, error) {
	won, err := rdb.SetNX(ctx, key, "1", 0).Result()
	if err != nil || !won {
		return false, err
	}
	return true, rdb.Expire(ctx, key, 30*time.Second).Err()
}

// end

// TestPitfallSetNXThenExpire: a process that dies in between leaves a lock for ever.
func TestPitfallSetNXThenExpire(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	rdb.AddHook(before{"expire", sqltest.ErrCut})
	_, err := lockInTwoSteps(t.Context(), rdb, "lock")
	assert.ErrorIs(t, err, sqltest.ErrCut, "the process that died")
	assert.Equal(t, rdb.TTL(t.Context(), "lock").Val(), time.Duration(-1), "the life of its lock, where -1 is for ever")
}

// snippet: lock-alone
func payLocked(ctx context.Context, rdb *redis.Client, order, owner string, charge func() error) error {
	won, err := rdb.SetNX(ctx, "lock:"+order, owner, 30*time.Second).Result()
	if err != nil || !won {
		return errors.Join(err, errBusy)
	}
	defer rdb.Eval(ctx, compareAndDelete, []string{"lock:" + order}, owner)
	return charge()
}

// end

// TestPitfallLockAlone: the answer is lost, the client retries, and the lock is free.
func TestPitfallLockAlone(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	charges := 0
	for range 2 {
		assert.NoError(t, payLocked(t.Context(), rdb, "o", "me", func() error { charges++; return nil }), "a payment")
	}
	assert.Equal(t, charges, 2, "charges for one order")
}

// snippet: mark-then-work
func markThenWork(ctx context.Context, rdb *redis.Client, id string, work func() error) error {
	won, err := rdb.SetNX(ctx, "done:"+id, "1", 24*time.Hour).Result()
	if err != nil || !won {
		return err // not claimed: it is done
	}
	return work()
}

// end

// snippet: work-then-mark
func workThenMark(ctx context.Context, rdb *redis.Client, id string, work func() error) error {
	n, err := rdb.Exists(ctx, "done:"+id).Result()
	if err != nil || n == 1 {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return rdb.Set(ctx, "done:"+id, "1", 24*time.Hour).Err()
}

// end

// TestPitfallMarkThenWork: a process that dies during its work leaves a mark that says it is done.
func TestPitfallMarkThenWork(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	effects := 0
	assert.ErrorIs(t, markThenWork(t.Context(), rdb, "m", func() error { return sqltest.ErrCut }), sqltest.ErrCut, "the first dies")
	assert.NoError(t, markThenWork(t.Context(), rdb, "m", func() error { effects++; return nil }), "the second is told that it is done")
	assert.Equal(t, effects, 0, "effects")
}

// TestPitfallWorkThenMark: a process that dies before the mark works again.
func TestPitfallWorkThenMark(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	effects := 0
	work := func() error { effects++; return nil }
	dying := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr})
	defer dying.Close()
	dying.AddHook(before{"set", sqltest.ErrCut})
	assert.ErrorIs(t, workThenMark(t.Context(), dying, "m", work), sqltest.ErrCut, "the first dies")
	assert.NoError(t, workThenMark(t.Context(), rdb, "m", work), "the second")
	assert.Equal(t, effects, 2, "effects")
}

// snippet: short-window
func setLimit(ctx context.Context, rdb *redis.Client, request string, set func() error) error {
	first, err := rdb.SetNX(ctx, "seen:"+request, "1", 5*time.Second).Result()
	if err != nil || !first {
		return err
	}
	return set()
}

// end

// TestPitfallShortWindow: a retry after the window undoes what others have set since.
func TestPitfallShortWindow(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	limit := 0
	ask := func(request string, to int) {
		assert.NoError(t, setLimit(t.Context(), rdb, request, func() error { limit = to; return nil }), "%s", request)
	}
	ask("ann sets 20", 20)
	rdb.Persist(t.Context(), "seen:ann sets 20") // this machine may be slow
	ask("bob sets 30", 30)
	ask("ann sets 20", 20)
	assert.Equal(t, limit, 30, "the limit after a retry within the window")
	rdb.Del(t.Context(), "seen:ann sets 20") // five seconds have passed
	ask("ann sets 20", 20)
	assert.Equal(t, limit, 20, "the limit after a late retry")
}

// pitfallRedis returns a client of an empty server.
func pitfallRedis(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: servers.StartRedis(t).Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// countPassing returns how many of n concurrent calls get true.
func countPassing(n int, ask func() (bool, error)) int {
	return waits.AtOnce(n, func() error {
		if ok, err := ask(); err != nil || !ok {
			return errors.Join(err, errBusy)
		}
		return nil
	})
}

// meetingOf makes n callers wait for each other.
func meetingOf(n int) func() {
	var all sync.WaitGroup
	all.Add(n)
	return func() {
		all.Done()
		all.Wait()
	}
}

// It does something after each command of a given name, as may happen by chance.
type behind struct {
	name string
	do   func()
}

func (h behind) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h behind) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h behind) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		err := next(ctx, c)
		if strings.EqualFold(c.Name(), h.name) {
			h.do()
		}
		return err
	}
}

// before skips a command and returns an error, as if the process died before it.
type before struct {
	name string
	err  error
}

func (h before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if strings.EqualFold(c.Name(), h.name) {
			c.SetErr(h.err)
			return h.err
		}
		return next(ctx, c)
	}
}
