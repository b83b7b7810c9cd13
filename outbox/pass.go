package outbox

import (
	"context"
	"time"
)

// maxHeld is how many keys that are held up a pass leaves out by name.
const maxHeld = 256

// leastPass is how long a pass lasts, if there is so much to publish.
const leastPass = time.Second

// pass is one way through a partition, from its first message on. It does not look again at what it
// has come by: a long queue of a key that is held up would be read once for each batch. It leaves
// out the keys that were held up when it began, to its end: one that is let go on meanwhile has
// messages before the place at which the pass is.
type pass struct {
	began, until time.Time
	held         [][hashSize]byte
	after        int64 // by seq
}

// over tells whether the next batch begins at the first message.
func (p *pass) over() bool { return !time.Now().Before(p.until) }

// begin reads which keys are held up. Where there are none, or too many to name, each batch begins
// at the first message.
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

// came notes what a batch was. The pass is over where the batch was the last one, or where not all
// of it was published: what was not is before the place at which the pass is.
func (p *pass) came(messages []Outgoing, last, whole bool) {
	if last || !whole {
		*p = pass{}
		return
	}
	if len(p.held) == 0 {
		return
	}
	if p.after == 0 { // the first batch comes by all that is held up at the beginning
		p.until = p.until.Add(10 * time.Since(p.began))
	}
	p.after = messages[len(messages)-1].seq
}
