package retrysafe

import (
	"context"
	"errors"
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
		opts.input, opts.err = inputOf(o.engine.c.codec, &in)
	}
	k := Key{Tenant: tenant, Operation: o.name, ID: id}
	return do(ctx, o.engine, k, func(ctx context.Context) (Out, error) { return o.work(ctx, in) }, &opts)
}
