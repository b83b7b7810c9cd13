package redisnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
)

// All requires every replica that a primary was seen to have.
const All = -1

// Primaries are the servers that a package writes to, and how many of their replicas must have a
// write. Its methods can be called concurrently.
type Primaries struct {
	// name begins each error: it is the package's name.
	name     string
	client   redisclient.Client
	replicas int
	within   time.Duration
	refusal  func(error) error
	most     atomic.Int64 // the largest number of replicas that a primary had
}

// NewPrimaries checks the options that packages share: replicas is a count, [All] or zero; within
// limits the wait for them, and is 1 s if it is zero. refusal explains an error of a server. The
// errors begin with name, the package's.
func NewPrimaries(name string, c redisclient.Client, replicas int, within time.Duration, refusal func(error) error) (*Primaries, error) {
	within = cmp.Or(within, time.Second)
	_, waits := c.(redisclient.Replicated)
	switch {
	case c == nil:
		return nil, errors.New(name + ": New needs a client; the adapters rueidisclient and goredisclient make one")
	case replicas < All || within < 0:
		return nil, fmt.Errorf("%s: Replicas is %d and ReplicaTime %v; use a count, All or zero, and a positive time", name, replicas, within)
	case replicas != 0 && !waits:
		return nil, errors.New(name + ": Replicas needs a client that can WAIT on the connection of a script; this one cannot")
	}
	return &Primaries{name: name, client: c, replicas: replicas, within: within, refusal: refusal}, nil
}

// Need returns how many replicas must have a write.
func (p *Primaries) Need() int {
	if p.replicas == All {
		return int(p.most.Load())
	}
	return p.replicas
}

// Eval runs a script, and waits for replicas if any are needed. acked is how many have confirmed
// its writes in time. The caller compares it with need.
func (p *Primaries) Eval(ctx context.Context, call redisclient.Call) (reply redisclient.Reply, acked, need int) {
	if need = p.Need(); need == 0 {
		return p.client.Eval(ctx, call), 0, 0
	}
	reply, acked = p.client.(redisclient.Replicated).EvalWait(ctx, call, need, p.within) //nolint:errcheck,forcetypeassert // NewPrimaries has checked it
	return reply, acked, need
}

// Inspect asks each primary for its configuration before anything is stored there, checks it (see
// [Node.Check]), counts its replicas, and calls f. asked is false, and f is not called, if the
// client cannot ask.
func (p *Primaries) Inspect(ctx context.Context, allowEviction bool, what string, f func(context.Context, Do, *Node) error) (asked bool, err error) {
	nodes, asked := p.client.(redisclient.Nodes)
	switch {
	case !asked && p.replicas == All:
		return false, errors.New(p.name + ": Replicas All needs a client that can ask the primaries how many they have; give their number")
	case !asked:
		return false, nil
	}
	return true, nodes.EachPrimary(ctx, func(ctx context.Context, do Do) error {
		node, err := Look(ctx, do)
		if err != nil {
			return p.refusal(err)
		}
		if err := node.Check(allowEviction, what); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := p.mayWait(ctx, do); err != nil {
			return err
		}
		p.noteReplicas(int64(node.Replicas))
		if p.replicas == All && node.Replicas <= 0 {
			return errors.New(p.name + ": Replicas All, and a primary has no replica, or does not tell (INFO); give their number")
		}
		return f(ctx, do, &node)
	})
}

// mayWait returns an error if replicas are needed and the server refuses WAIT: no write would ever
// be confirmed, and each call would blame the replicas.
func (p *Primaries) mayWait(ctx context.Context, do Do) error {
	if p.replicas == 0 {
		return nil
	}
	if r := do(ctx, "WAIT", "0", "0"); r.Err != nil {
		return fmt.Errorf("%s: Replicas needs the command WAIT; allow it (ACL SETUSER … +wait), or leave Replicas zero: %w", p.name, p.refusal(r.Err))
	}
	return nil
}

// noteReplicas keeps the largest number. Primaries may be asked concurrently.
func (p *Primaries) noteReplicas(replicas int64) {
	for {
		most := p.most.Load()
		if replicas <= most || p.most.CompareAndSwap(most, replicas) {
			return
		}
	}
}

// Refusal explains an error of a server. The result still is a [redisclient.Error] if err is one.
// advice says by code what only the package knows, and comes before [redisclient.Error.Advice].
func Refusal(name string, advice map[string]string, err error) error {
	e, refused := errors.AsType[redisclient.Error](err)
	if !refused {
		return fmt.Errorf("%s: %w", name, err)
	}
	if what := cmp.Or(advice[e.Code()], e.Advice()); what != "" {
		return fmt.Errorf("%s: the server refuses (%s): %w", name, what, e)
	}
	return fmt.Errorf("%s: the server refuses: %w", name, e)
}
