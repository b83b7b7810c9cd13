package outbox

import (
	"context"
	"time"
)

// maxHeld is how many held-up keys a pass excludes by name.
const maxHeld = 256

// shortestPass is how long a pass lasts if there is enough to publish.
const shortestPass = time.Second

// partitionPass is one walk through a partition, from its first message on. It does not look again
// at messages that it has passed. Otherwise a long queue of a held-up key would be read once for
// each batch. It excludes the keys that were held up when it began until it ends: a key that is
// freed meanwhile has messages before the position of the pass.
type partitionPass struct {
	began, ends time.Time
	held        [][hashSize]byte
	after       int64 // by seq
}

// isOver reports whether the next batch begins at the first message.
func (p *partitionPass) isOver() bool { return !time.Now().Before(p.ends) }

// restart reads which keys are held up. If there are none, or too many to name, each batch begins
// at the first message.
func (p *partitionPass) restart(ctx context.Context, t relayTable, h heldPartition, skipDead bool) error {
	began := time.Now()
	held, err := t.heldKeys(ctx, h, maxHeld+1, skipDead)
	if err != nil {
		return err
	}
	if len(held) > maxHeld {
		held = nil
	}
	*p = partitionPass{began: began, ends: began.Add(shortestPass), held: held}
	return nil
}

// recordBatch records a batch. The pass is over after the last batch, and after one that was only
// partly published: the unpublished messages are before the position of the pass.
func (p *partitionPass) recordBatch(messages []Outgoing, last, whole bool) {
	if last || !whole {
		*p = partitionPass{}
		return
	}
	if len(p.held) == 0 {
		return
	}
	if p.after == 0 { // the first batch passes all that is held up at the beginning
		p.ends = p.ends.Add(10 * time.Since(p.began))
	}
	p.after = messages[len(messages)-1].seq
}
