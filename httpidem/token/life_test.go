package token_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestLife: the life limits only the first use. A token that was used is answered for the
// retention, and refused for ever after.
func TestLife(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		for _, retention := range []time.Duration{time.Hour, time.Minute} {
			// A short retention must not let a token run twice within its life.
			t.Run(name+" "+retention.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					i, c := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{Retention: retention}), &o), new(till)
					early, late := issueToken(t, i, "ann"), issueToken(t, i, "ann")
					for passed := time.Duration(0); passed < 5*time.Minute; passed += 30 * time.Second {
						want := "replayed"
						if passed == 0 {
							want = "ran"
						}
						assert.Equal(t, c.pay(t, i, "ann", early), want, "after %v", passed)
						time.Sleep(30 * time.Second)
					}
					assert.Equal(t, c.pay(t, i, "ann", late), "refused", "one that was not used in time")
					assert.Equal(t, c.pay(t, i, "ann", early), "replayed", "one that was")
					for range 100 {
						time.Sleep(time.Hour)
						assert.Equal(t, c.pay(t, i, "ann", early), "refused", "after the retention")
					}
					assert.Equal(t, c.n.Load(), int64(1), "runs")
				})
			})
		}
	}
}

// TestShorterLife: an old token, with a longer life than new ones, does not run twice either.
func TestShorterLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, c := engineOn(t, newStore(), retrysafe.Policy{Retention: time.Minute}), new(till)
		before := token.NewIssuer(e, &token.Options{Life: time.Hour, StatelessSecret: secret})
		now := token.NewIssuer(e, &token.Options{Life: time.Second, StatelessSecret: secret})
		text := issueToken(t, before, "ann")
		assert.Equal(t, c.pay(t, now, "ann", text), "ran", "the first use")
		for range 7 {
			time.Sleep(10 * time.Minute)
			assert.NotEqual(t, c.pay(t, now, "ann", text), "ran", "a later one")
		}
	})
}

// TestBegunInTime: work that begins at 4:59 keeps its record past 5:00, while it runs and
// afterwards.
func TestBegunInTime(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				i, c := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{Lease: 30 * time.Second}), &o), new(till)
				text := issueToken(t, i, "ann")
				time.Sleep(5*time.Minute - time.Second)
				done := make(chan error, 1)
				go func() {
					_, err := token.Do(ctx, i, "ann", text, func(ctx context.Context) (int64, error) {
						time.Sleep(2 * time.Minute)
						return c.charge(ctx)
					})
					done <- err
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				_, err := token.Do(ctx, i, "ann", text, c.charge)
				assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a repeat while it runs")
				assert.NoError(t, <-done, "the first")
				assert.Equal(t, c.pay(t, i, "ann", text), "replayed", "a repeat")
				time.Sleep(23 * time.Hour)
				assert.Equal(t, c.pay(t, i, "ann", text), "replayed", "a late repeat")
				assert.Equal(t, c.n.Load(), int64(1), "runs")
			})
		})
	}
}

// TestNothingDone: a use that certainly did nothing leaves the token unused, for its life and for
// at least a lease.
func TestNothingDone(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		for _, used := range []time.Duration{0, time.Minute, 4*time.Minute + 59*time.Second} {
			t.Run(name+" "+used.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					policy := retrysafe.Policy{Lease: 10 * time.Second, Retention: 10 * time.Second}
					i, c := token.NewIssuer(engineOn(t, newStore(), policy), &o), new(till)
					text := issueToken(t, i, "ann")
					time.Sleep(used)
					_, err := token.Run(ctx, i, "ann", text, func(context.Context) error { return retrysafe.NothingDone(errors.New("no paper")) })
					_, again := retrysafe.Retryable(err)
					assert.True(t, again, "it may be tried again: %v", err)
					time.Sleep(max(5*time.Minute-used, 10*time.Second) - time.Millisecond)
					assert.Equal(t, c.pay(t, i, "ann", text), "ran", "the second use")
					assert.Equal(t, c.pay(t, i, "ann", text), "replayed", "the third")
					time.Sleep(time.Hour)
					assert.Equal(t, c.pay(t, i, "ann", text), "refused", "long after")
				})
			})
		}
	}
}

// TestDoubt: while its outcome is unknown, the token stays taken until an operator resolves it.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				i, c := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &o), new(till)
				text := issueToken(t, i, "ann")
				_, err := token.Run(ctx, i, "ann", text, func(context.Context) error { return errors.New("it broke off") })
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the first")
				time.Sleep(1000 * time.Hour)
				_, err = token.Do(ctx, i, "ann", text, c.charge)
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
				rec, err := i.Engine().Lookup(ctx, i.Key("ann", text))
				assert.NoError(t, err, "lookup")
				assert.NoError(t, i.Engine().Resolve(ctx, i.Key("ann", text), retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone}), "resolve")
				assert.Equal(t, c.pay(t, i, "ann", text), "ran", "after a person has looked")
			})
		})
	}
}
