package redisstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// shortError: the primary has what was written, and fewer replicas confirmed it than were asked
// for. If the primary dies now the write may be gone; nobody is told of it before that is settled.
type shortError struct{ acked, need int }

func (e *shortError) Error() string {
	return fmt.Sprintf("redisstore: %d of %d replicas have confirmed the write in time; look at the replicas, or ask for fewer", e.acked, e.need)
}

// need is how many replicas have to confirm.
func (s *Store) need() int {
	if s.o.Replicas == All {
		return int(s.replicas.Load())
	}
	return s.o.Replicas
}

// won tells of an answer to Acquire that replicas have to confirm before anybody acts on it. A win
// that too few have is an error, and the record stays as it is: the same owner may ask again, and
// then it is counted anew; what is not asked for again is given back by the engine, which knows
// whether there was a doubt before it.
func won(a *answer) bool { return a.code == fresh || retrysafe.Status(a.code) == retrysafe.Won }

// confirmed is eval, with the replicas' word where the answer wants it.
func (s *Store) confirmed(ctx context.Context, call redisclient.Call, wants func(*answer) bool) (answer, error) {
	need := s.need()
	if need == 0 {
		return s.eval(ctx, call)
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	r, acked := s.client.(redisclient.Replicated).EvalWait(ctx, call, need, s.o.ReplicaTime) //nolint:errcheck,forcetypeassert // New has looked
	a, err := s.read(r)
	if err == nil && wants(&a) && acked < need {
		err = &shortError{acked, need}
	}
	return a, err
}
