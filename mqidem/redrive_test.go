package mqidem_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// deadLetterOne makes a message use up its tries. The cause of the failures is gone afterwards.
func (w *world) deadLetterOne(id string, opts ...retrysafe.CallOption) {
	w.t.Helper()
	w.publish(message(id, id))
	stop := w.consume(mqidem.Once(w.engine, "stock", func(context.Context, *mqidem.Message) error { return errWork }, opts...), mqidem.Options{MaxAttempts: 2})
	w.passTime(2 * time.Minute)
	assert.NoError(w.t, stop(), "consume")
}

func (w *world) redriver(rule mqidem.RedriverOptions) *mqidem.Redriver {
	rule.Logger = slog.New(slog.DiscardHandler)
	w.t.Helper()
	r, err := mqidem.NewRedriver(w.engine, w.broker.DeadLetters("q"), &rule)
	assert.NoError(w.t, err, "new redriver")
	return r
}

// A redriven message runs once, and its tries are counted again. Copies of it do not run.
func TestRedrivenRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.deadLetterOne("1")
		did, err := w.redriver(mqidem.RedriverOptions{}).Once(t.Context())
		assert.NoError(t, err, "redrive")
		assert.Equal(t, did, mqidem.Redriven{Seen: 1, Sent: 1}, "what was done")
		assert.Equal(t, len(w.deadLetters()), 0, "dead letters")
		w.publish(message("1", "1"))
		h := mqidem.Once(w.engine, "stock", w.handler(func(_ *mqidem.Message, n int) error {
			if n < 2 {
				return errWork
			}
			return nil
		}))
		w.outcomes = nil
		stop := w.consume(h, mqidem.Options{MaxAttempts: 2, Concurrency: 1})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectOutcomes(mqidem.OutcomeAgain, mqidem.OutcomeDone, mqidem.OutcomeDuplicate)
		w.expectRuns("1", "1")
		assert.Equal(t, w.outcomes[1].Message.Header(mqidem.HeaderRedrives) == "1" || w.outcomes[0].Message.Header(mqidem.HeaderRedrives) == "1", true, "the copy says that it was redriven")
		w.expectEmpty()
	})
}

// deadLettersThat fails to publish, or dies with its caller.
type deadLettersThat struct {
	mqidem.DeadLetters
	send func() error
}

func (p *deadLettersThat) Send(ctx context.Context, m *mqidem.Message) error {
	if err := p.send(); err != nil {
		return err
	}
	return p.DeadLetters.Send(ctx, m)
}

// A redrive that ends between the record and the publication leaves the dead letter. It is redriven
// again, and runs once.
func TestRedriveInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.deadLetterOne("1")
		p := &deadLettersThat{w.broker.DeadLetters("q"), func() error { return errors.New("no connection") }}
		r, err := mqidem.NewRedriver(w.engine, p, nil)
		assert.NoError(t, err, "new redriver")
		_, err = r.Once(t.Context())
		assert.Contains(t, err.Error(), "the record is open, and the message could not be published", "error")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters")
		assert.Equal(t, w.record("stock", "1").State, retrysafe.StateReleased, "state")
		p.send = func() error { return nil }
		_, err = r.Once(t.Context())
		assert.NoError(t, err, "redrive again")
		stop := w.consume(mqidem.Once(w.engine, "stock", w.handler(nil)), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		w.expectRuns("1")
	})
}

// Two entries of one message are redriven as one. An entry whose copy was done meanwhile is
// removed. One that a consumer works on stays.
func TestRedriveOfCopies(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.deadLetterOne("twice")
		p := w.deadLetters()[0]
		assert.NoError(t, w.broker.Open("q").Close(), "close")
		w.publish(message("twice", "twice"))
		s := w.broker.Open("q")
		d, err := s.Receive(ctx)
		assert.NoError(t, err, "receive")
		assert.NoError(t, d.Dead(ctx, p.Reason), "make a copy a dead letter")
		w.deadLetterOne("done")
		w.deadLetterOne("running")
		settle := func(id string) *retrysafe.Attempt {
			rec := w.record("stock", id)
			e := w.engine.Layer("mq")
			assert.NoError(t, e.Resolve(ctx, rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone}), "resolve")
			a, _, err := e.Begin(ctx, rec.Key.Key)
			assert.NoError(t, err, "begin")
			return a
		}
		assert.NoError(t, settle("done").Complete(ctx, retrysafe.Answer{Codec: "raw", Kept: true}), "complete")
		running := settle("running")
		w.passTime(10 * time.Second)
		did, err := w.redriver(mqidem.RedriverOptions{After: -1}).Once(ctx)
		assert.NoError(t, err, "redrive")
		assert.Equal(t, did, mqidem.Redriven{Seen: 4, Sent: 1, Gone: 2}, "what was done")
		assert.Equal(t, w.deadLetters()[0].Message.ID, "running", "what is left")
		assert.NoError(t, running.Release(ctx, nil), "release")
	})
}

// A rule redrives by reason, age, consumer and number, and never a message in doubt.
func TestRule(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.deadLetterOne("tries")
		w.deadLetterOne("doubt", retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Refuse}))
		young := w.redriver(mqidem.RedriverOptions{After: time.Hour})
		did, err := young.Once(ctx)
		assert.NoError(t, err, "redrive")
		assert.Equal(t, did, mqidem.Redriven{Seen: 2, Kept: 1}, "too young")
		did, err = w.redriver(mqidem.RedriverOptions{Consumer: "points"}).Once(ctx)
		assert.NoError(t, err, "redrive")
		assert.Equal(t, did.Sent, 0, "another's")
		for round := range 4 {
			did, err := w.redriver(mqidem.RedriverOptions{MaxRedrives: 3}).Once(ctx)
			assert.NoError(t, err, "redrive")
			want := mqidem.Redriven{Seen: 2, Sent: 1, Kept: 1}
			if round == 3 {
				want = mqidem.Redriven{Seen: 2, Kept: 2}
			}
			assert.Equal(t, did, want, "round %d", round)
			stop := w.consume(mqidem.Once(w.engine, "stock", func(context.Context, *mqidem.Message) error { return errWork }), mqidem.Options{MaxAttempts: 2})
			w.passTime(2 * time.Minute)
			assert.NoError(t, stop(), "consume")
		}
		_, err = mqidem.NewRedriver(w.engine, w.broker.DeadLetters("q"), &mqidem.RedriverOptions{Why: []string{mqidem.DeadInDoubt}})
		assert.Contains(t, err.Error(), "no rule redrives them", "error")
		_, err = mqidem.NewRedriver(w.engine, w.broker.DeadLetters("q"), &mqidem.RedriverOptions{Limit: -1})
		assert.True(t, err != nil, "a negative limit is refused")
	})
}

// A message in doubt is redriven by an operator who says that nothing was done. A message that
// cannot be redriven gives an error and stays.
func TestRedriveErrors(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, p := t.Context(), w.broker.DeadLetters("q")
		w.deadLetterOne("1", retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Refuse}))
		one := w.deadLetters()[0]
		assert.ErrorIs(t, mqidem.Redrive(ctx, w.engine, p, one, &mqidem.RedriveOptions{By: "ann"}), mqidem.ErrMayBeDone, "redrive of a doubt")
		assert.Contains(t, mqidem.Redrive(ctx, nil, p, one, &mqidem.RedriveOptions{NotDone: true, By: "ann"}).Error(), "give an engine", "error")
		other := retrysafe.New(w.store, &retrysafe.Options{Namespace: "other", Sweep: -1})
		assert.Contains(t, mqidem.Redrive(ctx, other, p, one, &mqidem.RedriveOptions{NotDone: true, By: "ann"}).Error(), `the namespace "app", and the engine is on "other"`, "error")
		w.expectEmpty()
		assert.NoError(t, mqidem.Redrive(ctx, w.engine, p, one, &mqidem.RedriveOptions{NotDone: true, By: "ann"}), "redrive as not done")
		assert.Contains(t, w.record("stock", "1").LastError, `resolved by "ann"`, "who redrove it")
		unread := &mqidem.DeadLetter{Message: one.Message, Reason: mqidem.Reason{Why: mqidem.DeadUnreadable}}
		assert.True(t, mqidem.Redrive(ctx, w.engine, p, unread, &mqidem.RedriveOptions{NotDone: true, By: "ann"}) != nil, "one without a reason is refused")
		plain := &mqidem.DeadLetter{Message: one.Message, Reason: mqidem.Reason{Why: mqidem.DeadTries}}
		assert.NoError(t, mqidem.Redrive(ctx, nil, p, plain, &mqidem.RedriveOptions{By: "ann"}), "one without a record")
		waiting, _ := w.broker.Stats("q")
		assert.Equal(t, waiting, 2, "messages that were put back")
	})
}

// Run continues until its context ends, also after a failed round.
func TestRedriverRuns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.deadLetterOne("1")
		tries := 0
		p := &deadLettersThat{w.broker.DeadLetters("q"), func() error {
			if tries++; tries < 3 {
				return errors.New("no connection")
			}
			return nil
		}}
		r, err := mqidem.NewRedriver(w.engine, p, &mqidem.RedriverOptions{Logger: slog.New(slog.DiscardHandler)})
		assert.NoError(t, err, "new redriver")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		assert.NoError(t, r.Run(ctx, time.Minute), "run")
		assert.Equal(t, tries, 3, "publications")
		waiting, dead := w.broker.Stats("q")
		assert.Equal(t, [2]int{waiting, dead}, [2]int{1, 0}, "waiting and dead")
		assert.True(t, r.Run(ctx, 0) != nil, "an interval of zero is refused")
	})
}

// Around sees each message that is redriven, and can keep one. The record has the name of who
// redrives.
func TestRuleAround(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.deadLetterOne("1")
		w.deadLetterOne("2")
		var seen []string
		refuse := errors.New("the log is full")
		rule := mqidem.RedriverOptions{By: "ann", Around: func(_ context.Context, m *mqidem.DeadLetter, redrive func() error) error {
			seen = append(seen, m.Message.ID)
			if m.Message.ID == "1" {
				return refuse
			}
			return redrive()
		}}
		did, err := w.redriver(rule).Once(t.Context())
		assert.ErrorIs(t, err, refuse, "redrive")
		assert.Equal(t, did, mqidem.Redriven{Seen: 2, Sent: 1}, "what was done")
		assert.Equal(t, seen, []string{"1", "2"}, "what Around has seen")
		assert.Equal(t, w.deadLetters()[0].Message.ID, "1", "what is left")
		assert.Contains(t, w.record("stock", "2").LastError, "ann", "who redrove it")
		assert.Equal(t, w.record("stock", "1").State, retrysafe.StateFailed, "the record of the one that stays")
	})
}
