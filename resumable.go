package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Resumable is what a [Worker] can finish without the caller who began it: an operation that keeps
// its input, made by [Operation.Resumable], or a [NewHandler] of such an operation's calls.
type Resumable interface{ resumer() *resumer }

// resumer is how the abandoned calls of one operation are finished.
type resumer struct {
	engine  *Engine
	name    string
	options *callOptions
	// run does the work of an attempt that was won, and ends it.
	run func(ctx context.Context, a *Attempt, input *Answer) error
}

// Resumable is the operation with its input kept in the record of each call, in the engine's codec,
// before the work begins: then a [Worker] can finish what was abandoned. It costs one more call of
// the store, and room for the input until the call has ended; an input over 960 KiB is refused with
// nothing run. Work that a worker runs has no caller: of the context's values it sees the attempt
// alone.
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
		own := *input
		own.Body = bytes.Clone(own.Body) // the value may be these bytes, and the work's to change
		in, err := decode[In](a.codec, &own)
		if err != nil {
			_ = a.doubt(ctx, "input", err)
			return err
		}
		_, err = execute(ctx, a, func(ctx context.Context) (Out, error) { return o.work(ctx, in) })
		return err
	}}
}

// NewHandler finishes calls of an operation that another program has begun. work gets the input as
// it was kept and returns the answer as it is to be kept; what its error means is as in [Do]. It
// runs no steps: the names of those that were done are in [Attempt.Progress]. It panics on what
// [NewOperation] panics on.
func NewHandler(e *Engine, name string, work func(ctx context.Context, input Answer) (Answer, error), p *Policy) Resumable {
	return handler{NewOperation(e, name, func(ctx context.Context, input Answer) (handled, error) {
		answer, err := work(ctx, input)
		return handled(answer), err
	}, p)}
}

type handler struct{ o *Operation[Answer, handled] }

func (h handler) resumer() *resumer {
	return &resumer{h.o.engine, h.o.name, &h.o.options, func(ctx context.Context, a *Attempt, input *Answer) error {
		a.noSteps = true
		_, err := execute(ctx, a, func(ctx context.Context) (handled, error) { return h.o.work(ctx, *input) })
		return err
	}}
}

// inputOf is the input of a resumable operation as it is kept.
func inputOf[In any](c Codec, in *In) (*Answer, error) {
	input, err := encode(c, in)
	switch {
	case err != nil:
		return nil, fmt.Errorf("retrysafe: the input of a resumable operation cannot be kept, and nothing was run: %w", errors.Unwrap(err))
	case len(input.Body) > maxStepBody:
		return nil, fmt.Errorf("retrysafe: the input of a resumable operation has %d bytes, at most %d are kept, and nothing was run", len(input.Body), maxStepBody)
	}
	input.Body = bytes.Clone(input.Body) // it is written with each step again
	return &input, nil
}
