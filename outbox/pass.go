package outbox

import (
	"context"
	"time"
)

// maxHeld is how many held-up keys a pass excludes by name.
const maxHeld = 256

// leastPass is how long a pass lasts if there is enough to publish.
const leastPass = time.Second

// pass is one walk through a partition, from its first message on. It does not look again at
// messages that it has passed. Otherwise a long queue of a held-up key would be read once for each
// batch. It excludes the keys that were held up when it began until it ends: a key that is freed
// meanwhile has messages before the position of the pass.
type pass struct {
	began, until time.Time
	held         [][hashSize]byte
	after        int64 // by seq
}

// over reports whether the next batch begins at the first message.
func (p *pass) over() bool { return !time.Now().Before(p.until) }

// begin reads which keys are held up. If there are none, or too many to name, each batch begins at
// the first message.
func (p *pass) begin(ctx context.Context, t table, h hold, skipDead bool) error {
	began := time.Now()
	held, err := t.held(ctx, h, maxHeld+1, skipDead)
	if err != nil {
		return err
	}
	if len(held) > maxHeld {
		held = nil
	}
	*p = pass{began: began, until: began.Add(leastPass), held: held}
	return nil
}

// came records a batch. The pass is over after the last batch, and after one that was only partly
// published: the unpublished messages are before the position of the pass.
func (p *pass) came(messages []Outgoing, last, whole bool) {
	if last || !whole {
		*p = pass{}
		return
	}
	if len(p.held) == 0 {
		return
	}
	if p.after == 0 { // the first batch passes all that is held up at the beginning
		p.until = p.until.Add(10 * time.Since(p.began))
	}
	p.after = messages[len(messages)-1].seq
}
