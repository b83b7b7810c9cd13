// Package journal is what an attempt knows about the steps of its call: what its record had when it
// was acquired, and what the attempt has done itself; and the format in which a record stores that.
package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ErrStepRepeated means that an attempt has run a step of that name before.
var ErrStepRepeated = errors.New("this attempt has run a step of this name before")

// ErrStepsChanged means that the work has other steps than an earlier attempt of the call.
var ErrStepsChanged = errors.New("the steps are not those of an earlier attempt")

// Journal is the journal of one attempt. It is safe for concurrent use.
type Journal struct {
	// writing is held while progress is written. So later progress has everything that was written
	// earlier.
	writing chan struct{}

	mu       sync.Mutex // guards the fields below
	progress Progress
	order    int64           // of the journal as it is; each change counts
	saved    int64           // the last order that the store has confirmed
	asked    map[string]bool // the names that this attempt has asked for
	txBytes  int             // bytes of the step that is in a transaction
	err      error           // set if what is stored cannot be read or is unknown
}

// Open returns the journal of an attempt whose record had progress, or none.
func Open(progress *storeapi.Answer) *Journal {
	j := &Journal{writing: make(chan struct{}, 1), asked: make(map[string]bool)}
	if progress.Codec != "" {
		j.progress, j.err = Parse(progress)
		j.order, j.saved = progress.Size, progress.Size
	}
	return j
}

// Progress returns what was done so far. Its bytes belong to the journal.
func (j *Journal) Progress() (Progress, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.progress, j.err
}

// Check returns an error if what was done so far cannot be that of a program with this plan.
func (j *Journal) Check(plan []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.checkPlan(plan)
}

func (j *Journal) checkPlan(plan []string) error {
	if j.err != nil || len(plan) == 0 {
		return j.err
	}
	if j.progress.Plan != nil && !slices.Equal(j.progress.Plan, plan) {
		return fmt.Errorf("%w: an earlier attempt had the steps %q, this one has %q", ErrStepsChanged, j.progress.Plan, plan)
	}
	for i := range j.progress.Steps {
		if name := j.progress.Steps[i].Name; !slices.Contains(plan, name) {
			return fmt.Errorf("%w: an earlier attempt has begun %q, and this one has the steps %q", ErrStepsChanged, name, plan)
		}
	}
	return nil
}

// AskStep notes that the attempt asks for a step. found is what earlier attempts have left of it,
// or nil.
func (j *Journal) AskStep(name string, plan []string) (found *Step, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkPlan(plan); err != nil {
		return nil, err
	}
	if len(plan) > 0 && !slices.Contains(plan, name) {
		return nil, fmt.Errorf("it is not among the steps of the policy, %q; add it there", plan)
	}
	if j.asked[name] {
		return nil, ErrStepRepeated
	}
	if i := j.stepIndex(name); i >= 0 {
		s := j.progress.Steps[i]
		j.asked[name] = true
		return &s, nil
	}
	if j.progress.Plan == nil && len(plan) > 0 {
		j.progress.Plan = slices.Clone(plan)
	}
	if len(j.asked) >= MaxSteps || len(j.progress.Steps) >= MaxSteps {
		return nil, fmt.Errorf("a call has at most %d steps; do more in one of them", MaxSteps)
	}
	j.asked[name] = true
	return nil, nil //nolint:nilnil // as documented
}

func (j *Journal) stepIndex(name string) int {
	return slices.IndexFunc(j.progress.Steps, func(s Step) bool { return s.Name == name })
}

// PutStep adds a step to the journal, in the place of one that was begun. It returns the order of
// the journal that has it.
func (j *Journal) PutStep(s Step) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress.Steps = j.stepsWith(&s)
	j.order++
	return j.order
}

// stepsWith returns the steps and s. If there is no room for the answer of s, its body is dropped.
func (j *Journal) stepsWith(s *Step) []Step {
	if len(s.Answer.Body)+j.progress.bodyBytes()+j.txBytes > MaxBody {
		s.Answer = storeapi.Answer{Codec: s.Answer.Codec, Size: int64(len(s.Answer.Body)), Digest: sha256.Sum256(s.Answer.Body)}
	}
	steps := slices.DeleteFunc(slices.Clone(j.progress.Steps), func(other Step) bool { return other.Name == s.Name })
	return append(steps, *s)
}

// DropStep removes a step that was begun and has certainly done nothing.
func (j *Journal) DropStep(name string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress.Steps = slices.DeleteFunc(slices.Clone(j.progress.Steps), func(s Step) bool { return s.Name == name })
	j.order++
	return j.order
}

// Unasked returns the steps of earlier attempts that this one has not asked for.
func (j *Journal) Unasked() (names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.progress.Steps {
		if name := j.progress.Steps[i].Name; !j.asked[name] {
			names = append(names, name)
		}
	}
	return names
}

// Lock waits for the right to write. It waits as long as left, which is asked again and again, says
// that there is time, and returns false after that.
func (j *Journal) Lock(left func() time.Duration) bool {
	for {
		t := time.NewTimer(left())
		select {
		case j.writing <- struct{}{}:
			t.Stop()
			return true
		case <-t.C:
		}
		if left() == 0 {
			return false
		}
	}
}

// Unlock gives back the right to write.
func (j *Journal) Unlock() { <-j.writing }

// Unsaved returns everything that is in the journal, as it is stored, and its order. It returns nil
// if the store has the journal as it was at order. The caller has the right to write.
func (j *Journal) Unsaved(order int64) (*storeapi.Answer, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || j.saved >= order {
		return nil, 0, j.err
	}
	progress, err := j.progress.Answer(j.order)
	return progress, j.order, err
}

// Saved notes that the store has confirmed what Unsaved returned.
func (j *Journal) Saved(order int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.saved = order
}

// Reopened returns the number of the attempt after which tries are counted.
func (j *Journal) Reopened() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.progress.Reopened
}

// CountFrom changes the attempt after which tries are counted. It returns the order of the journal
// that has the change.
func (j *Journal) CountFrom(from func(now int) int) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return 0, j.err
	}
	j.progress.Reopened = from(j.progress.Reopened)
	j.order++
	return j.order, nil
}

// PutInput puts the input of a call into the journal, if there is none and if the journal can be
// read. Check reports a journal that cannot be read.
func (j *Journal) PutInput(input *storeapi.Answer, plan []string) (order int64, needed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || j.progress.Input.Codec != "" {
		return 0, false
	}
	j.progress.Input = *input
	if j.progress.Plan == nil {
		j.progress.Plan = plan
	}
	j.order++
	return j.order, true
}

// Propose returns the progress with a step that is not in the journal yet. Its order is never used
// again.
func (j *Journal) Propose(s *Step) (*storeapi.Answer, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return nil, 0, j.err
	}
	p := j.progress
	p.Steps = j.stepsWith(s)
	j.txBytes = len(s.Answer.Body)
	j.order++
	progress, err := p.Answer(j.order)
	return progress, j.order, err
}

// Decide puts the step into the journal if the store has it. The stored progress does not have
// steps that ended after Propose.
func (j *Journal) Decide(s *Step, order int64, kept bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.txBytes = 0
	if kept {
		j.progress.Steps = append(slices.Clone(j.progress.Steps), *s)
		j.saved = max(j.saved, order)
	}
}

// Fail ends the use of the journal: it is unknown what the record has.
func (j *Journal) Fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}
