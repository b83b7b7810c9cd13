package redisstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// replicasError means that the primary has the write, but fewer replicas than required have
// confirmed it. If the primary fails now, the write may be lost. No caller gets the result before
// that is settled.
type replicasError struct{ acked, need int }

func (e *replicasError) Error() string {
	return fmt.Sprintf("redisstore: %d of %d replicas have confirmed the write in time; look at the replicas, or ask for fewer", e.acked, e.need)
}

// isGranted reports whether replicas must confirm this answer to Acquire before a caller acts on
// it. A claim that too few replicas have is an error, and its record stays. The same owner may ask
// again, and the replicas are then counted again. Otherwise the engine gives the claim back, since
// it knows whether the key was in doubt before.
func isGranted(a *answer) bool {
	return a.code == codeFresh || storeapi.Status(a.code) == storeapi.StatusAcquired
}

// evalConfirmed is eval with a confirmation of the replicas if wants says so.
func (s *Store) evalConfirmed(ctx context.Context, call redisclient.Call, wants func(*answer) bool) (answer, error) {
	if s.primaries.Need() == 0 {
		return s.eval(ctx, call)
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	r, acked, need := s.primaries.Eval(ctx, call)
	a, err := s.readReply(r)
	if err == nil && wants(&a) && acked < need {
		err = &replicasError{acked, need}
	}
	return a, err
}
