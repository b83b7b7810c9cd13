package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/journal"
)

// Operation is work that is declared once: its name, its policy and its function. Its input is the
// fingerprint of a call, so a caller cannot forget to set one. It is safe for concurrent use.
type Operation[In, Out any] struct {
	engine  *Engine
	name    string
	work    func(context.Context, In) (Out, error)
	options callOptions

	resumable bool
}

// NewOperation returns an operation; p may be nil. It panics on an empty name and on a policy that
// [Policy.Validate] refuses.
func NewOperation[In, Out any](e *Engine, name string, work func(context.Context, In) (Out, error), p *Policy) *Operation[In, Out] {
	if p == nil {
		p = new(Policy)
	}
	policy := p.Or(*e.defaults.policy)
	o := &Operation[In, Out]{engine: e, name: name, work: work, options: callOptions{policy: &policy}}
	if err := errors.Join(policy.Validate(), Key{Operation: name, ID: "x"}.Validate()); err != nil {
		panic(err)
	}
	return o
}

// Do runs the operation for the key {tenant, name, id}; see the function [Do].
func (o *Operation[In, Out]) Do(ctx context.Context, tenant, id string, in In) (Result[Out], error) {
	opts := o.options
	opts.outlives = true
	opts.fingerprint, opts.err = payloadFingerprint(in)
	if o.resumable && opts.err == nil {
		opts.input, opts.err = storedInput(o.engine.c.codec, &in)
	}
	k := Key{Tenant: tenant, Operation: o.name, ID: id}
	return doWithOptions(ctx, o.engine, k, func(ctx context.Context) (Out, error) { return o.work(ctx, in) }, &opts)
}

// Resumable is work that a [Worker] can finish without the caller that began it: an operation that
// stores its input, made by [Operation.Resumable], or a [NewHandler] for such an operation's calls.
type Resumable interface{ resumer() *resumer }

// resumer finishes the abandoned calls of one operation.
type resumer struct {
	engine  *Engine
	name    string
	options *callOptions
	// run does the work of an attempt that was acquired, and finishes the attempt.
	run func(ctx context.Context, a *Attempt, input *Answer) error
}

// Resumable returns a copy of the operation that stores the input of each call in its record, in
// the engine's codec, before the work begins. A [Worker] can then finish abandoned calls. It costs
// one more store call, and room for the input until the call has ended. An input over 960 KiB is
// refused and nothing runs. All attempts get the input as the codec decodes it, the caller's too:
// what the codec leaves out, such as a field with the tag json:"-", does not reach the work. Work
// that a worker runs has no caller: of the context's values it has only the attempt.
func (o *Operation[In, Out]) Resumable() *Operation[In, Out] {
	kept := *o
	kept.resumable = true
	return &kept
}

func (o *Operation[In, Out]) resumer() *resumer {
	if !o.resumable {
		panic(fmt.Sprintf("retrysafe: operation %q does not keep its input; give the worker what Resumable returns, and call that", o.name))
	}
	return &resumer{o.engine, o.name, &o.options, func(ctx context.Context, a *Attempt, input *Answer) error {
		defer func() {
			if !a.Ended() {
				a.finishCrashed(ctx) // the codec panicked; the panic goes on
			}
		}()
		own := *input
		// The value may be these bytes, and the work may change them.
		own.Body = bytes.Clone(own.Body)
		in, err := decodeAnswer[In](a.codec, &own)
		if err != nil {
			_ = a.putInDoubt(ctx, "input", err)
			return err
		}
		_, err = runAttempt(ctx, a, func(ctx context.Context) (Out, error) { return o.work(ctx, in) })
		return err
	}}
}

// NewHandler returns a [Resumable] that finishes calls of an operation that another program has
// begun. work gets the input as it is stored, and returns the answer as it is to be stored. Its
// error means the same as in [Do]. It runs no steps; [Attempt.Progress] names those that were done.
// NewHandler panics on what [NewOperation] panics on.
func NewHandler(e *Engine, name string, work func(ctx context.Context, input Answer) (Answer, error), p *Policy) Resumable {
	return resumableHandler{NewOperation(e, name, func(ctx context.Context, input Answer) (handledAnswer, error) {
		answer, err := work(ctx, input)
		return handledAnswer(answer), err
	}, p)}
}

type resumableHandler struct {
	o *Operation[Answer, handledAnswer]
}

func (h resumableHandler) resumer() *resumer {
	return &resumer{h.o.engine, h.o.name, &h.o.options, func(ctx context.Context, a *Attempt, input *Answer) error {
		a.noSteps = true
		_, err := runAttempt(ctx, a, func(ctx context.Context) (handledAnswer, error) { return h.o.work(ctx, *input) })
		return err
	}}
}

// storedInput returns the input of a resumable operation as it is stored, and sets *in to what a
// worker will decode: all attempts of a call have the same input.
func storedInput[In any](c Codec, in *In) (*Answer, error) {
	if err := checkDecodable[In](c); err != nil {
		return nil, fmt.Errorf("retrysafe: the input of a resumable operation cannot be kept, and nothing was run: %w", err)
	}
	input, err := encodeShared(c, in)
	switch {
	case err != nil:
		return nil, fmt.Errorf("retrysafe: the input of a resumable operation cannot be kept, and nothing was run: %w", errors.Unwrap(err))
	case len(input.Body) > journal.MaxBody:
		return nil, fmt.Errorf("retrysafe: the input of a resumable operation has %d bytes, at most %d are kept, and nothing was run", len(input.Body), journal.MaxBody)
	}
	input.Body = bytes.Clone(input.Body) // it is written again with each step
	return &input, nil
}
