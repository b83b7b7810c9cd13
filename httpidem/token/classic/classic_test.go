package classic_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token/classic"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// told is a server that returns prepared replies and records the calls. The tests in integration
// use real servers.
type told struct {
	replies []redisclient.Reply
	asked   []redisclient.Call
}

func (s *told) Eval(_ context.Context, c redisclient.Call) redisclient.Reply {
	s.asked = append(s.asked, c)
	r := s.replies[0]
	s.replies = s.replies[1:]
	return r
}

func says(values ...any) *told {
	s := new(told)
	for _, v := range values {
		if err, ok := v.(error); ok {
			s.replies = append(s.replies, redisclient.Reply{Err: err})
			continue
		}
		s.replies = append(s.replies, redisclient.Reply{Value: v})
	}
	return s
}

const (
	zero = int64(0)
	one  = int64(1)
	two  = int64(2)
)

// TestAnswers: the meaning of each number that the scripts return.
func TestAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	broken := errors.New("connection reset")
	assert.NoError(t, classic.NewDeletion(says(one), nil).Take(ctx, "ann", "t"), "deleted")
	assert.ErrorIs(t, classic.NewDeletion(says(zero), nil).Take(ctx, "ann", "t"), retrysafe.ErrNotIssued, "not there")
	assert.ErrorIs(t, classic.NewDeletion(says(broken), nil).Take(ctx, "ann", "t"), broken, "no answer")
	assert.NoError(t, classic.NewCount(says(two), nil).Take(ctx, "ann", "t"), "counted 2")
	assert.ErrorIs(t, classic.NewCount(says(int64(3)), nil).Take(ctx, "ann", "t"), classic.ErrTaken, "counted 3")
	assert.ErrorIs(t, classic.NewCount(says(zero), nil).Take(ctx, "ann", "t"), retrysafe.ErrNotIssued, "not there")
	for name, s := range map[string]*told{"a word": says("OK"), "nothing": says(nil)} {
		err := classic.NewCount(s, nil).Take(ctx, "ann", "t")
		assert.True(t, err != nil && strings.Contains(err.Error(), "is there a proxy"), "%s for a number: %v", name, err)
	}
	_, err := classic.NewDeletion(says(zero), nil).Issue(ctx, "ann")
	assert.True(t, err != nil && strings.Contains(err.Error(), "somebody else"), "a token that is there: %v", err)
	_, err = classic.NewCount(says(broken), nil).Issue(ctx, "ann")
	assert.ErrorIs(t, err, broken, "a token without an answer")

	gone, cancel := context.WithCancel(ctx)
	cancel()
	s := says()
	assert.ErrorIs(t, classic.NewDeletion(s, nil).Take(gone, "ann", "t"), context.Canceled, "a caller who has gone")
	assert.ErrorIs(t, classic.NewDeletion(s, nil).Take(ctx, "ann", ""), retrysafe.ErrInvalidKey, "no token")
	assert.Equal(t, len(s.asked), 0, "what the server was asked for them")
}

// TestLockEndings: work runs only under the lock, Run returns its error unchanged, and the lock is
// released in every case.
func TestLockEndings(t *testing.T) {
	t.Parallel()
	ctx, failed, runs := t.Context(), errors.New("no money"), 0
	work := func(context.Context) error { runs++; return failed }
	s := says(one, one)
	assert.True(t, classic.NewLock(s, nil).Run(ctx, "n", work) == failed, "the error of work") //nolint:errorlint // the identical error
	assert.Equal(t, s.asked[1].Args[0], s.asked[0].Args[0], "the owner that gives it back")
	err := classic.NewLock(says(one, zero), nil).Run(ctx, "n", work)
	assert.True(t, errors.Is(err, failed) && errors.Is(err, retrysafe.ErrLeaseLost), "a lock that has ended: %v", err)
	err = classic.NewLock(says(one, errors.New("reset")), nil).Run(ctx, "n", work)
	assert.True(t, err == failed, "no word on the end: %v", err) //nolint:errorlint // the identical error
	assert.Equal(t, runs, 3, "runs")

	assert.ErrorIs(t, classic.NewLock(says(zero), nil).Run(ctx, "n", work), retrysafe.ErrInProgress, "a lock that is held")
	assert.True(t, classic.NewLock(says(errors.New("reset")), nil).Run(ctx, "n", work) != nil, "no word on the lock")
	assert.Equal(t, runs, 3, "runs without the lock")

	s = says(one, one)
	func() {
		defer func() { assert.Equal(t, recover(), any("oh"), "the panic goes on") }()
		_ = classic.NewLock(s, nil).Run(ctx, "n", func(context.Context) error { panic("oh") })
	}()
	assert.Equal(t, len(s.asked), 2, "calls around a panic")

	gone, cancel := context.WithCancel(ctx)
	s = says(one, one)
	_ = classic.NewLock(s, nil).Run(gone, "n", func(context.Context) error { cancel(); return nil })
	assert.Equal(t, len(s.asked), 2, "calls around work whose context ends")
}

// TestNames: the names of variants, applications, tenants and records do not collide.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	see := func(what string, s *told) {
		name := s.asked[0].Keys[0]
		assert.True(t, strings.HasPrefix(name, "rs-classic:"), "%s: prefix of %s", what, name)
		assert.Equal(t, seen[name], "", "%s has the name of", what)
		seen[name] = what
	}
	long := strings.Repeat("x", 1000)
	for _, id := range []string{"t", "T", "t/t", "t%2Ft", "{t}", " t", long, long + "x"} {
		for _, space := range []string{"", "other"} {
			o := &classic.Options{Namespace: space}
			s := says(one)
			_ = classic.NewDeletion(s, o).Take(t.Context(), "ann", id)
			see("deletion "+space+id, s)
			for _, tenant := range []string{"", "ann"} {
				s = says(two)
				_ = classic.NewCount(s, o).Take(t.Context(), tenant, id)
				see("count "+space+tenant+id, s)
			}
			s = says(zero)
			_ = classic.NewLock(s, o).Run(t.Context(), id, nil)
			see("lock "+space+id, s)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]*classic.Options{
		"at least 1ms":      {Life: time.Microsecond},
		"where records are": {Prefix: "rs:"},
		"Namespace has 513": {Namespace: strings.Repeat("x", 513)},
	} {
		err := o.Validate()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
		func() {
			defer func() { assert.True(t, recover() != nil, "NewCount panics on it") }()
			classic.NewCount(says(), o)
		}()
	}
	s := says(one, one)
	token, err := classic.NewCount(s, &classic.Options{Life: 90 * time.Second, Prefix: "own:"}).Issue(t.Context(), "ann")
	assert.NoError(t, err, "issue")
	assert.Equal(t, len(token), 32, "length of a token")
	assert.Equal(t, s.asked[0].Args[0], "90000", "its life")
	assert.True(t, strings.HasPrefix(s.asked[0].Keys[0], "own:app/classic/ann/count/"), "its name")
	func() {
		defer func() { assert.True(t, recover() != nil, "no client") }()
		classic.NewLock(nil, nil)
	}()
}
