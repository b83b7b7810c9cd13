package rangestest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
)

// Config configures the tests.
type Config struct {
	// Open returns a source on the same server each time. If sources use connections, it has a
	// connection of its own, since it stands for another process.
	Open func(t testing.TB) idgen.Ranges
	// Create creates a tag with its first value, through a source that Open has returned. An
	// existing tag stays unchanged.
	Create func(ctx context.Context, r idgen.Ranges, tag string, first int64) error
	// Patience is how long a clause may take on a busy machine; default 2 min.
	Patience time.Duration
}

// Run runs the suite.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, one := range clauses {
		t.Run(one.id+"/"+one.name, func(t *testing.T) {
			t.Parallel()
			if err := checkClause(t, c, one); err != nil {
				t.Errorf("%s: %v", one.id, err)
			}
		})
	}
}

type clause struct {
	id, name string
	run      func(*env) error
}

var clauses = []clause{
	{"R1", "each once", eachValueOnce},
	{"R2", "rising", valuesRise},
	{"R3", "unknown tags", unknownTagIsRefused},
	{"R4", "tags apart", tagsAreSeparate},
	{"R5", "contexts", endedContextTakesNothing},
	{"R6", "the end", endIsReported},
	{"R7", "made again", createTwiceChangesNothing},
}

func checkClause(t testing.TB, c Config, one clause) error {
	if c.Patience == 0 {
		c.Patience = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	defer cancel()
	return one.run(&env{Config: c, ctx: ctx, a: c.Open(t), b: c.Open(t), tag: "rangestest-" + rand.Text()})
}

// env is what a clause works with: two sources, for two processes, and a tag that no other clause
// uses and that does not exist yet.
type env struct {
	Config
	ctx  context.Context
	a, b idgen.Ranges
	tag  string
}
