package check

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// lateOracle counts each effect some time after its request.
type lateOracle struct {
	late time.Duration
	acts []time.Time
}

func (o *lateOracle) addEffect() { o.acts = append(o.acts, time.Now().Add(o.late)) }

func (o *lateOracle) Count(context.Context) (int64, error) {
	var n int64
	for _, at := range o.acts {
		if !time.Now().Before(at) {
			n++
		}
	}
	return n, nil
}

func (o *lateOracle) String() string { return "late" }

// TestLateEffectOfEarlierCheck: once an effect was seen to come late, the effect of a request that
// no check counted is not taken for one of the next check.
func TestLateEffectOfEarlierCheck(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{300 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			oracle := &lateOracle{late: late}
			o := (&Options{}).withDefaults()
			s := &session{target: &Target{Oracle: oracle}, options: &o, sender: newSender(&o)}
			effects := s.newEffectCounter(t.Context())
			oracle.addEffect()
			assert.Equal(t, effects.awaitCount(t.Context(), 1), 1, "effects of a request that is counted")
			oracle.addEffect() // by a check that does not count
			effects = s.newEffectCounter(t.Context())
			oracle.addEffect()
			assert.Equal(t, effects.awaitCount(t.Context(), 1), 1, "effects of the next check's request")
		})
	}
}
