package retrysafe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// book is what an attempt knows of the steps of its call: what its record had when it was won, and
// what it has done itself.
type book struct {
	// turn is held while progress is written: what is written later has all that was written
	// before.
	turn chan struct{}

	mu    sync.Mutex // guards what follows
	p     Progress
	order int64           // of the book as it is; each change counts
	saved int64           // the last that the store has confirmed
	asked map[string]bool // by this attempt
	draft int             // bytes of the step that is in a transaction
	err   error           // nothing can be decided any more
}

// openBook makes the book of an attempt whose record had progress, or none.
func openBook(progress *Answer) *book {
	b := &book{turn: make(chan struct{}, 1), asked: make(map[string]bool)}
	if progress.Codec != "" {
		b.p, b.err = parseProgress(progress)
		b.order, b.saved = progress.Size, progress.Size
	}
	return b
}

// book is that of the attempt; it is made when it is first needed.
func (a *Attempt) book() *book {
	if b := a.steps.Load(); b != nil {
		return b
	}
	a.steps.CompareAndSwap(nil, openBook(&Answer{}))
	return a.steps.Load()
}

// check tells whether what was done so far can be that of a program with the plan.
func (b *book) check(plan []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(plan)
}

func (b *book) fits(plan []string) error {
	if b.err != nil || len(plan) == 0 {
		return b.err
	}
	if b.p.Plan != nil && !slices.Equal(b.p.Plan, plan) {
		return fmt.Errorf("%w: an earlier attempt had the steps %q, this one has %q", ErrStepsChanged, b.p.Plan, plan)
	}
	for i := range b.p.Steps {
		if name := b.p.Steps[i].Name; !slices.Contains(plan, name) {
			return fmt.Errorf("%w: an earlier attempt has begun %q, and this one has the steps %q", ErrStepsChanged, name, plan)
		}
	}
	return nil
}

// ask is the first word of a step. found is what is known of it, or nil.
func (b *book) ask(name string, plan []string) (found *StepRecord, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(plan); err != nil {
		return nil, err
	}
	if len(plan) > 0 && !slices.Contains(plan, name) {
		return nil, fmt.Errorf("it is not among the steps of the policy, %q; add it there", plan)
	}
	if b.asked[name] {
		return nil, ErrStepRepeated
	}
	if i := b.find(name); i >= 0 {
		s := b.p.Steps[i]
		b.asked[name] = true
		return &s, nil
	}
	if b.p.Plan == nil && len(plan) > 0 {
		b.p.Plan = slices.Clone(plan)
	}
	if len(b.asked) >= maxSteps || len(b.p.Steps) >= maxSteps {
		return nil, fmt.Errorf("a call has at most %d steps; do more in one of them", maxSteps)
	}
	b.asked[name] = true
	return nil, nil //nolint:nilnil // as documented
}

func (b *book) find(name string) int {
	return slices.IndexFunc(b.p.Steps, func(s StepRecord) bool { return s.Name == name })
}

// put writes a step in, over one that was begun. It returns the order of the book that has it.
func (b *book) put(s StepRecord) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Steps = b.with(&s)
	b.order++
	return b.order
}

// with are the steps and s, whose answer is cut down to what there is room for.
func (b *book) with(s *StepRecord) []StepRecord {
	if len(s.Answer.Body)+b.p.bodies()+b.draft > maxStepBody {
		s.Answer = Answer{Codec: s.Answer.Codec, Size: int64(len(s.Answer.Body)), Digest: sha256.Sum256(s.Answer.Body)}
	}
	steps := slices.DeleteFunc(slices.Clone(b.p.Steps), func(other StepRecord) bool { return other.Name == s.Name })
	return append(steps, *s)
}

// drop takes out a step that was begun and has certainly done nothing.
func (b *book) drop(name string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Steps = slices.DeleteFunc(slices.Clone(b.p.Steps), func(s StepRecord) bool { return s.Name == name })
	b.order++
	return b.order
}

// left are steps of earlier attempts that this one has not asked for.
func (b *book) left() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.p.Steps {
		if name := b.p.Steps[i].Name; !b.asked[name] {
			names = append(names, name)
		}
	}
	return names
}

// take waits for the turn to write, as long as the lease lasts: whoever waits may have done
// something already.
func (a *Attempt) take(b *book) error {
	for {
		t := time.NewTimer(a.LeaseLeft())
		select {
		case b.turn <- struct{}{}:
			t.Stop()
			return nil
		case <-t.C:
		}
		if a.LeaseLeft() == 0 {
			return a.lostOr(ErrLeaseLost)
		}
	}
}

func (b *book) leave() { <-b.turn }

// save returns when the store has the book as it was at order, and all before it. What is written
// carries all that is in the book by then, so that steps that end at the same time cost one call.
func (a *Attempt) save(ctx context.Context, b *book, order int64) error {
	if err := a.take(b); err != nil {
		return err
	}
	defer b.leave()
	b.mu.Lock()
	if b.err != nil || b.saved >= order {
		defer b.mu.Unlock()
		return b.err
	}
	order = b.order
	progress, err := b.p.answer(order)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	if err := a.keep(ctx, ExtendRequest{Progress: progress}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = order
	return nil
}

// keep writes progress, or that the work begins, and asks again until the store has answered or the
// lease has passed: what has happened must reach the record. A caller that has gone is waited for
// no longer than an ending would be.
func (a *Attempt) keep(ctx context.Context, what ExtendRequest) (err error) {
	begun := time.Now()
	for wait := 25 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTime)
		told := a.extend(try, what)
		cancel()
		if errors.Is(told, ErrLeaseLost) {
			return a.lostOr(errors.Join(told, err))
		}
		if told == nil || !mayBeApplied(told) {
			return told
		}
		err = told
		if ctx.Err() != nil && time.Since(begun) >= ackTime || !a.core.sleep(wait) {
			return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
		}
	}
}

// lostOr is why nothing can be kept any more: the attempt was ended, or else what it was told.
func (a *Attempt) lostOr(err error) error {
	if a.Ended() {
		return ErrEnded
	}
	return err
}

// stepName says what is wrong with a name.
func stepName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a step is empty")
	case len(name) > maxStep:
		return fmt.Errorf("the name of a step has %d bytes, at most %d are allowed", len(name), maxStep)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the name of a step has characters that cannot be printed")
	}
	return nil
}
