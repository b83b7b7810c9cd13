package rpcidemtest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/downstore"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const (
	ann     = "ann"
	longKey = "a-key-of-more-than-22-characters"
)

func testOnce(t *testing.T, open Open) {
	wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{Wait: 20 * time.Second}}, nil)
	var fresh, replayed atomic.Int64
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			a := wd.send(ann, "k", "tea")
			assert.Equal(t, a.Reply, "run 1 of tea", "the answer")
			if a.Replayed {
				replayed.Add(1)
			} else {
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	wd.checkRuns(1, "of 30 calls at once")
	assert.Equal(t, [2]int64{fresh.Load(), replayed.Load()}, [2]int64{1, 29}, "first answers and replays")
	assert.Equal(t, wd.send(ann, "k2", "tea").Reply, "run 2 of tea", "another key")
	assert.Equal(t, wd.send("bob", "k", "tea").Reply, "run 3 of tea", "another tenant")
	wd.checkRefusal(wd.send(ann, "k", "coffee"), rpcidem.InvalidArgument, "PAYLOAD_MISMATCH", false)
	for i := range int64(2) {
		a := wd.send(ann, "", "tea")
		assert.Equal(t, a.Code, rpcidem.OK, "without a key")
		assert.Equal(t, a.Replayed, false, "without a key")
		wd.checkRuns(4+i, "without a key")
	}
}

func testKeys(t *testing.T, open Open) {
	wd := newWorld(t, open, nil, rpcidem.Options{Key: rpcidem.Required}, nil)
	wd.checkRefusal(wd.send(ann, "", "tea"), rpcidem.InvalidArgument, "KEY_MISSING", false)
	for _, keys := range [][]string{{"a", "a"}, {"a,b"}, {`"a`}, {strings.Repeat("x", 256)}, {""}} {
		a := wd.call(t.Context(), Call{Tenant: ann, Keys: keys, Request: "tea"})
		wd.checkRefusal(a, rpcidem.InvalidArgument, "KEY_MALFORMED", false)
	}
	wd.checkRefusal(wd.send("", "short", "tea"), rpcidem.InvalidArgument, "KEY_TOO_SHORT", false)
	a := wd.send("unknown", longKey, "tea")
	wd.checkRefusal(a, rpcidem.Unauthenticated, "TENANT_MISSING", false)
	assert.True(t, !strings.Contains(a.Message, "secret"), "the cause is told: %s", a.Message)
	wd.checkRuns(0, "of refused calls")
	assert.Equal(t, wd.send("", longKey, "tea").Code, rpcidem.OK, "a long key of nobody")
	assert.Equal(t, wd.send(ann, `"a b"`, "tea").Code, rpcidem.OK, "a quoted key")
	assert.Equal(t, wd.send(ann, strings.Repeat("x", 255), "tea").Code, rpcidem.OK, "the longest key")
	wd.checkRuns(3, "of good calls")

	free := newWorld(t, open, nil, rpcidem.Options{Methods: func(m string) bool { return m != Path }}, nil)
	for range 2 {
		assert.Equal(t, free.send(ann, "k", "tea").Replayed, false, "a method that is not guarded")
	}
	free.checkRuns(2, "of a method that is not guarded")
	other := newWorld(t, open, nil, rpcidem.Options{Metadata: "x-request-id", Key: rpcidem.Required}, nil)
	other.checkRefusal(other.send(ann, "k", "tea"), rpcidem.InvalidArgument, "KEY_MISSING", false)

	var mu sync.Mutex
	credential := "one"
	bound := newWorld(t, open, nil, rpcidem.Options{Binding: func(context.Context, rpcidem.Metadata) []byte {
		mu.Lock()
		defer mu.Unlock()
		return []byte(credential)
	}}, nil)
	bound.send(ann, "k", "tea")
	mu.Lock()
	credential = "two"
	mu.Unlock()
	bound.checkRefusal(bound.send(ann, "k", "tea"), rpcidem.FailedPrecondition, "PRINCIPAL_CHANGED", false)
}

func testOutcomes(t *testing.T, open Open) {
	for _, tt := range []struct {
		on   retrysafe.OnDoubt
		code rpcidem.Code
		list []rpcidem.Code // NotRun
		mark func(error) error
		runs int64
		then string // reason of the duplicate's refusal, if the method does not run again
	}{
		{on: retrysafe.Refuse, code: rpcidem.InvalidArgument, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.NotFound, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.AlreadyExists, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.FailedPrecondition, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.OutOfRange, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.Internal, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.Unavailable, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.Unknown, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.DeadlineExceeded, runs: 1},
		{on: retrysafe.Reexecute, code: rpcidem.Internal, runs: 2},
		{on: retrysafe.Reexecute, code: rpcidem.Unavailable, runs: 2},
		{on: retrysafe.Reexecute, code: rpcidem.InvalidArgument, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.Unauthenticated, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.PermissionDenied, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.ResourceExhausted, runs: 2},
		// the method may have charged before it met the conflict
		{on: retrysafe.Refuse, code: rpcidem.Aborted, runs: 1},
		{on: retrysafe.Refuse, code: rpcidem.Aborted, mark: retrysafe.NothingDone, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.Aborted, list: []rpcidem.Code{rpcidem.Aborted}, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.Unavailable, list: []rpcidem.Code{rpcidem.Aborted, rpcidem.Unavailable}, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.Aborted, list: []rpcidem.Code{rpcidem.Aborted}, mark: retrysafe.InDoubt, runs: 1, then: "OUTCOME_UNKNOWN"},
		{on: retrysafe.Reexecute, code: rpcidem.Aborted, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.Unimplemented, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.Unavailable, mark: retrysafe.NothingDone, runs: 2},
		{on: retrysafe.Refuse, code: rpcidem.ResourceExhausted, mark: retrysafe.InDoubt, runs: 1, then: "OUTCOME_UNKNOWN"},
	} {
		wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{OnDoubt: tt.on}, NotRun: tt.list}, func(context.Context, string) (string, *Error) {
			return "", &Error{Code: tt.code, Message: "the card of ann was declined", Mark: tt.mark}
		})
		first := wd.send(ann, "k", "tea")
		assert.Equal(t, first.Code, tt.code, "the first answer")
		assert.Equal(t, first.Message, "the card of ann was declined", "its message")
		again := wd.send(ann, "k", "tea")
		wd.checkRuns(tt.runs, "after "+tt.code.String())
		if tt.then != "" {
			assert.Equal(t, again.Reason, tt.then, "after %v: reason", tt.code)
			continue
		}
		assert.Equal(t, again.Code, tt.code, "after %v: the second answer", tt.code)
		assert.Equal(t, again.Message, first.Message, "after %v: its message", tt.code)
		assert.Equal(t, again.Replayed, tt.runs == 1, "after %v: replayed", tt.code)
	}
	wd := newWorld(t, open, nil, rpcidem.Options{Classify: func(code rpcidem.Code, _ error) retrysafe.Outcome {
		return map[rpcidem.Code]retrysafe.Outcome{rpcidem.NotFound: retrysafe.NotDone, rpcidem.PermissionDenied: retrysafe.Done}[code]
	}}, func(_ context.Context, request string) (string, *Error) {
		return "", &Error{Code: map[string]rpcidem.Code{"a": rpcidem.NotFound, "b": rpcidem.PermissionDenied}[request], Message: "m"}
	})
	wd.send(ann, "a", "a")
	// under Refuse, Classify cannot turn "it ran" into "nothing done"
	wd.checkRefusal(wd.send(ann, "a", "a"), rpcidem.FailedPrecondition, "OUTCOME_UNKNOWN", false)
	wd.send(ann, "b", "b")
	assert.True(t, wd.send(ann, "b", "b").Replayed, "a verdict of its own keeps an answer")
}

func testCrashes(t *testing.T, open Open) {
	for on, runs := range map[retrysafe.OnDoubt]int64{retrysafe.Refuse: 1, retrysafe.Reexecute: 2} {
		wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{OnDoubt: on}}, func(context.Context, string) (string, *Error) {
			panic("the method is broken")
		})
		first := wd.send(ann, "k", "tea")
		assert.True(t, first.Code != rpcidem.OK, "a panic is no answer")
		again := wd.send(ann, "k", "tea")
		wd.checkRuns(runs, "after a panic")
		if on == retrysafe.Refuse {
			wd.checkRefusal(again, rpcidem.FailedPrecondition, "OUTCOME_UNKNOWN", false)
		}
	}
}

func testInProgress(t *testing.T, open Open) {
	begun, end := make(chan struct{}), make(chan struct{})
	wd := newWorld(t, open, nil, rpcidem.Options{}, func(context.Context, string) (string, *Error) {
		close(begun)
		<-end
		return "done", nil
	})
	first := make(chan Answer, 1)
	go func() { first <- wd.send(ann, "k", "tea") }()
	<-begun
	wd.checkRefusal(wd.send(ann, "k", "tea"), rpcidem.Aborted, "IN_PROGRESS", true)
	close(end)
	assert.Equal(t, (<-first).Reply, "done", "the first")
	a := wd.send(ann, "k", "tea")
	assert.True(t, a.Replayed && a.Reply == "done", "the repeat: %+v", a)
	wd.checkRuns(1, "in all")
}

// testHangUp: a caller that hangs up does not stop the method, and its retry gets the answer.
func testHangUp(t *testing.T, open Open) {
	begun, end := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{Wait: 20 * time.Second}}, func(ctx context.Context, _ string) (string, *Error) {
		close(begun)
		<-end
		ended <- ctx.Err()
		return "done", nil
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan Answer, 1)
	go func() { gone <- wd.call(ctx, Call{Tenant: ann, Keys: []string{"k"}, Request: "tea"}) }()
	<-begun
	leave()
	assert.True(t, (<-gone).Code != rpcidem.OK, "the caller has gone")
	close(end)
	assert.NoError(t, <-ended, "the method's context")
	a := wd.send(ann, "k", "tea")
	assert.True(t, a.Replayed && a.Reply == "done", "the retry: %+v", a)
	wd.checkRuns(1, "in all")
}

func testNotKept(t *testing.T, open Open) {
	large := strings.Repeat("x", 5000)
	wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{MaxAnswer: 1000}}, func(_ context.Context, request string) (string, *Error) {
		if request == "an error" {
			return "", &Error{Code: rpcidem.NotFound, Message: large}
		}
		return large, nil
	})
	assert.Equal(t, wd.send(ann, "k", "tea").Reply, large, "the first gets it whole")
	wd.checkRefusal(wd.send(ann, "k", "tea"), rpcidem.AlreadyExists, "ANSWER_NOT_KEPT", false)
	assert.Equal(t, wd.send(ann, "e", "an error").Message, large, "an error, too")
	wd.checkRefusal(wd.send(ann, "e", "an error"), rpcidem.AlreadyExists, "ANSWER_NOT_KEPT", false)
	wd.checkRuns(2, "in all")
}

// testTexts: the first caller gets the texts that a duplicate gets, also those that cannot be
// stored as they are.
func testTexts(t *testing.T, open Open) {
	messages := map[string]string{"plain": "no such order", "latin": "ä", "broken": "a\xffb"}
	wd := newWorld(t, open, nil, rpcidem.Options{}, func(_ context.Context, request string) (string, *Error) {
		return "", &Error{Code: rpcidem.NotFound, Message: messages[request]}
	})
	for request, message := range messages {
		want := strings.ToValidUTF8(message, "\ufffd")
		first, second := wd.send(ann, request, request), wd.send(ann, request, request)
		assert.Equal(t, first.Code, rpcidem.NotFound, "code of %q", request)
		assert.Equal(t, [2]bool{first.Replayed, second.Replayed}, [2]bool{false, true}, "replays of %q", request)
		assert.Equal(t, [2]string{first.Message, second.Message}, [2]string{want, want}, "messages of %q", request)
	}
}

func testStoreDown(t *testing.T, open Open) {
	store := &downstore.Store{Store: memstore.New(nil)}
	wd := newWorld(t, open, store, rpcidem.Options{}, func(context.Context, string) (string, *Error) {
		store.Down.Store(true)
		return "done", nil
	})
	defer store.Down.Store(false) // otherwise nothing would end
	a := wd.send(ann, "k", "tea")
	assert.True(t, a.Reply == "done" && a.Unconfirmed, "the work is done, and nobody has confirmed it: %+v", a)
	a = wd.send(ann, "l", "tea")
	wd.checkRefusal(a, rpcidem.Unavailable, "STORE_UNAVAILABLE", true)
	assert.True(t, !strings.Contains(a.Message, "secret-host"), "the cause is told: %s", a.Message)
	wd.checkRuns(1, "while the store was away")
}

func testLimits(t *testing.T, open Open) {
	wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{Limits: retrysafe.Limits{Live: 1}}}, nil)
	wd.send(ann, "a", "tea")
	wd.checkRefusal(wd.send(ann, "b", "tea"), rpcidem.ResourceExhausted, "TOO_MANY_KEYS", true)
	assert.True(t, wd.send(ann, "a", "tea").Replayed, "a key that is known")
	often := newWorld(t, open, nil, rpcidem.Options{Rate: retrysafe.Rate{PerSecond: 0.001, Burst: 2}}, nil)
	often.send(ann, "a", "tea")
	often.send(ann, "", "tea")
	often.checkRefusal(often.send(ann, "a", "tea"), rpcidem.ResourceExhausted, "TOO_MANY_REQUESTS", true)
	assert.Equal(t, often.send("bob", "a", "tea").Code, rpcidem.OK, "another caller")
	often.checkRuns(3, "within the rate")
}

func testDuplicates(t *testing.T, open Open) {
	wd := newWorld(t, open, nil, rpcidem.Options{Policy: retrysafe.Policy{Duplicate: retrysafe.Reject}}, nil)
	wd.send(ann, "k", "tea")
	wd.checkRefusal(wd.send(ann, "k", "tea"), rpcidem.AlreadyExists, "ALREADY_DONE", false)
	wd.checkRuns(1, "in all")
}
