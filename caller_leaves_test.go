package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestCallerThatLeaves: work that has begun continues when its caller hangs up, in a function and
// in an operation, and the retry gets the answer.
func TestCallerThatLeaves(t *testing.T) {
	t.Parallel()
	type call func(ctx context.Context, e *retrysafe.Engine, work func(context.Context) (string, error)) (retrysafe.Result[string], error)
	for name, do := range map[string]call{
		"function": func(ctx context.Context, e *retrysafe.Engine, work func(context.Context) (string, error)) (retrysafe.Result[string], error) {
			return retrysafe.Do(ctx, e, charge, work)
		},
		"function with options": func(ctx context.Context, e *retrysafe.Engine, work func(context.Context) (string, error)) (retrysafe.Result[string], error) {
			return retrysafe.Do(ctx, e, charge, work, retrysafe.WithPayload("tea"))
		},
		"function on a view": func(ctx context.Context, e *retrysafe.Engine, work func(context.Context) (string, error)) (retrysafe.Result[string], error) {
			return retrysafe.Do(ctx, e.WithPolicy(retrysafe.Policy{Wait: time.Second}).Layer("fn"), charge, work)
		},
		"operation": func(ctx context.Context, e *retrysafe.Engine, work func(context.Context) (string, error)) (retrysafe.Result[string], error) {
			op := retrysafe.NewOperation(e, charge.Operation, func(ctx context.Context, _ string) (string, error) { return work(ctx) }, nil)
			return op.Do(ctx, charge.Tenant, charge.ID, "tea")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := engineOn(t, newStore(), retrysafe.Policy{})
				type key struct{}
				leaving, leave := context.WithCancel(context.WithValue(ctx, key{}, "a value"))
				runs := 0
				work := func(ctx context.Context) (string, error) {
					runs++
					leave()
					select {
					case <-ctx.Done():
						return "", ctx.Err() // half done
					case <-time.After(20 * time.Second):
					}
					return fmt.Sprint(ctx.Value(key{})), nil
				}
				res, err := do(leaving, e, work)
				assert.Equal(t, said(res, err), "a value <nil>", "the call of the caller that has gone")
				assert.True(t, res.Stored, "its answer is kept")
				res, err = do(ctx, e, work)
				assert.Equal(t, said(res, err), "a value <nil>", "the retry")
				assert.Equal(t, runs, 1, "runs")
			})
		})
	}
}

// TestCallerThatTakesItsWorkAlong: with Attached, as option or policy, of an engine or operation,
// the work ends with its caller.
func TestCallerThatTakesItsWorkAlong(t *testing.T) {
	t.Parallel()
	attached := retrysafe.Policy{Attached: true}
	for name, do := range map[string]func(t *testing.T, ctx context.Context, s storeapi.Store, work func(context.Context) (string, error)) error{
		"option": func(t *testing.T, ctx context.Context, s storeapi.Store, work func(context.Context) (string, error)) error {
			t.Helper()
			_, err := retrysafe.Do(ctx, engineOn(t, s, retrysafe.Policy{}), charge, work, retrysafe.Attached())
			return err
		},
		"policy": func(t *testing.T, ctx context.Context, s storeapi.Store, work func(context.Context) (string, error)) error {
			t.Helper()
			_, err := retrysafe.Do(ctx, engineOn(t, s, retrysafe.Policy{}), charge, work, retrysafe.WithPolicy(attached))
			return err
		},
		"engine": func(t *testing.T, ctx context.Context, s storeapi.Store, work func(context.Context) (string, error)) error {
			t.Helper()
			_, err := retrysafe.Do(ctx, engineOn(t, s, attached), charge, work)
			return err
		},
		"operation": func(t *testing.T, ctx context.Context, s storeapi.Store, work func(context.Context) (string, error)) error {
			t.Helper()
			op := retrysafe.NewOperation(engineOn(t, s, retrysafe.Policy{}), "charge", func(ctx context.Context, _ string) (string, error) { return work(ctx) }, &attached)
			_, err := op.Do(ctx, "ann", "1", "tea")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				leaving, leave := context.WithCancelCause(ctx)
				gone := errors.New("the client hung up")
				err := do(t, leaving, newStore(), func(ctx context.Context) (string, error) {
					leave(gone)
					<-ctx.Done()
					return "", context.Cause(ctx)
				})
				assert.ErrorIs(t, err, gone, "the cause")
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the call")
			})
		})
	}
}

// TestCallersDeadline: the caller's deadline bounds the work, and ends it.
func TestCallersDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{})
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := retrysafe.Do(limited, e, charge, func(ctx context.Context) (string, error) {
			end, ok := ctx.Deadline()
			assert.True(t, ok && end.Equal(begun.Add(5*time.Second)), "the deadline: %v", end.Sub(begun))
			<-ctx.Done()
			return "", ctx.Err()
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded, "the work")
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the call")
		assert.Equal(t, time.Since(begun), 5*time.Second, "time")
	})
}

// TestCallerThatHasLeft: nothing runs for a caller that has gone before the work begins.
func TestCallerThatHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
		gone, leave := context.WithCancel(ctx)
		leave()
		_, err := retrysafe.Do(gone, e, charge, c.work)
		assert.ErrorIs(t, err, context.Canceled, "the call")
		c.started(t, 0)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "the next one")
	})
}

// TestShutdownEndsWorkWithoutACaller: Shutdown waits for such work until its context ends, and then
// ends it.
func TestShutdownEndsWorkWithoutACaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		for _, tt := range []struct {
			key     retrysafe.Key
			patient time.Duration
			want    error
		}{
			{retrysafe.Key{Operation: "charge", ID: "waited for"}, time.Minute, nil},
			{retrysafe.Key{Operation: "charge", ID: "not waited for"}, 10 * time.Second, retrysafe.ErrClosed},
		} {
			e := retrysafe.New(s, &retrysafe.Options{Policy: retrysafe.Policy{Lease: time.Minute}})
			leaving, leave := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				_, err := retrysafe.Do(leaving, e, tt.key, func(ctx context.Context) (string, error) {
					leave()
					select {
					case <-ctx.Done():
						return "", context.Cause(ctx)
					case <-time.After(30 * time.Second):
						return "done", nil
					}
				})
				ended <- err
			}()
			<-leaving.Done()
			patient, cancel := context.WithTimeout(ctx, tt.patient)
			_ = e.Shutdown(patient)
			cancel()
			err := <-ended
			assert.True(t, tt.want == nil && err == nil || tt.want != nil && errors.Is(err, tt.want), "%s: %v", tt.key.ID, err)
		}
	})
}
