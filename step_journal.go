package retrysafe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// stepJournal is what an attempt knows about the steps of its call: what its record had when it was
// acquired, and what it has done itself.
type stepJournal struct {
	// writing is held while progress is written. So later progress has everything that was written
	// earlier.
	writing chan struct{}

	mu    sync.Mutex // guards the fields below
	p     Progress
	order int64           // of the journal as it is; each change counts
	saved int64           // the last order that the store has confirmed
	asked map[string]bool // the names that this attempt has asked for
	inTx  int             // bytes of the step that is in a transaction
	err   error           // set if what is stored cannot be read or is unknown
}

// openJournal returns the journal of an attempt whose record had progress, or none.
func openJournal(progress *Answer) *stepJournal {
	b := &stepJournal{writing: make(chan struct{}, 1), asked: make(map[string]bool)}
	if progress.Codec != "" {
		b.p, b.err = parseProgress(progress)
		b.order, b.saved = progress.Size, progress.Size
	}
	return b
}

// journal returns the journal of the attempt, and creates it when it is first needed.
func (a *Attempt) journal() *stepJournal {
	if b := a.steps.Load(); b != nil {
		return b
	}
	a.steps.CompareAndSwap(nil, openJournal(&Answer{}))
	return a.steps.Load()
}

// check returns an error if what was done so far cannot be that of a program with this plan.
func (b *stepJournal) check(plan []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(plan)
}

func (b *stepJournal) fits(plan []string) error {
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

// register notes that the attempt asks for a step. found is what earlier attempts have left of it,
// or nil.
func (b *stepJournal) register(name string, plan []string) (found *StepRecord, err error) {
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

func (b *stepJournal) find(name string) int {
	return slices.IndexFunc(b.p.Steps, func(s StepRecord) bool { return s.Name == name })
}

// put adds a step to the journal, in the place of one that was begun. It returns the order of the
// journal that has it.
func (b *stepJournal) put(s StepRecord) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Steps = b.with(&s)
	b.order++
	return b.order
}

// with returns the steps and s. If there is no room for the answer of s, its body is dropped.
func (b *stepJournal) with(s *StepRecord) []StepRecord {
	if len(s.Answer.Body)+b.p.bodies()+b.inTx > maxStepBody {
		s.Answer = Answer{Codec: s.Answer.Codec, Size: int64(len(s.Answer.Body)), Digest: sha256.Sum256(s.Answer.Body)}
	}
	steps := slices.DeleteFunc(slices.Clone(b.p.Steps), func(other StepRecord) bool { return other.Name == s.Name })
	return append(steps, *s)
}

// drop removes a step that was begun and has certainly done nothing.
func (b *stepJournal) drop(name string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.p.Steps = slices.DeleteFunc(slices.Clone(b.p.Steps), func(s StepRecord) bool { return s.Name == name })
	b.order++
	return b.order
}

// unrequested returns the steps of earlier attempts that this one has not asked for.
func (b *stepJournal) unrequested() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.p.Steps {
		if name := b.p.Steps[i].Name; !b.asked[name] {
			names = append(names, name)
		}
	}
	return names
}

// lockJournal waits for the right to write. It waits as long as the lease lasts, since the caller
// may have done something already.
func (a *Attempt) lockJournal(b *stepJournal) error {
	for {
		t := time.NewTimer(a.LeaseLeft())
		select {
		case b.writing <- struct{}{}:
			t.Stop()
			return nil
		case <-t.C:
		}
		if a.LeaseLeft() == 0 {
			return a.lostOr(ErrLeaseLost)
		}
	}
}

func (b *stepJournal) unlock() { <-b.writing }

// save returns when the store has the journal as it was at order. It writes everything that is in
// the journal by then, so steps that end at the same time cost one call.
func (a *Attempt) save(ctx context.Context, b *stepJournal, order int64) error {
	if err := a.lockJournal(b); err != nil {
		return err
	}
	defer b.unlock()
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
	if err := a.keep(ctx, storeapi.ExtendRequest{Progress: progress}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = order
	return nil
}

// keep stores progress, or that the work begins. It tries until the store has answered or the lease
// has expired: what has happened must reach the record. After ctx has ended, it tries no longer
// than a finishing call would.
func (a *Attempt) keep(ctx context.Context, what storeapi.ExtendRequest) (err error) {
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
		if ctx.Err() != nil && time.Since(begun) >= ackTime || !a.rt.sleep(wait) {
			return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
		}
	}
}

// lostOr returns why nothing can be stored any more: ErrEnded if the attempt has ended, otherwise
// err.
func (a *Attempt) lostOr(err error) error {
	if a.Ended() {
		return ErrEnded
	}
	return err
}

// keepInput stores the input in the record, unless it is there. If that fails, nothing has run and
// the attempt is released.
func (a *Attempt) keepInput(ctx context.Context, input *Answer) error {
	b := a.journal()
	order, needed := b.takeInput(input, a.policy.Steps)
	if !needed {
		return nil
	}
	err := a.save(ctx, b, order)
	if err == nil {
		return nil
	}
	_ = a.Release(ctx, NothingDone(err))
	if !errors.Is(err, ErrLeaseLost) {
		err = unavailable(err)
	}
	return a.rt.wrap(a.key, a.n, fmt.Errorf("the input was not kept: %w", err), 0)
}

// takeInput puts the input into the journal, if there is none and if the journal can be read.
// planned reports a journal that cannot be read.
func (b *stepJournal) takeInput(input *Answer, plan []string) (order int64, needed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || b.p.Input.Codec != "" {
		return 0, false
	}
	b.p.Input = *input
	if b.p.Plan == nil {
		b.p.Plan = plan
	}
	b.order++
	return b.order, true
}

// Progress returns what the call of the attempt has done so far, in this attempt and earlier ones.
// Its bytes belong to the engine: do not change them.
func (a *Attempt) Progress() (Progress, error) {
	b := a.steps.Load()
	if b == nil {
		return Progress{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.p, b.err
}
