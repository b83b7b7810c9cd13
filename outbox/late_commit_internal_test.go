package outbox

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// open adds a message in a transaction that is not committed yet: it has its place, and is not seen
// before commit.
func (f *fakeTable) open(id, key string) (commit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := Message{ID: id, Topic: "t", Key: key}
	hash, _ := m.keyHash()
	f.seq++
	row := fakeRow{m: Outgoing{Message: m, seq: f.seq, hash: hash, Added: time.Now()}}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		at := 0
		for at < len(f.rows) && f.rows[at].m.seq < row.m.seq {
			at++
		}
		f.rows = append(f.rows[:at:at], append([]fakeRow{row}, f.rows[at:]...)...)
	}
}

// TestOrderOfALateCommitInAPass: one key has a dead message. A transaction adds to another key, and
// commits after the pass has gone by its place. Only then the next message of that key is added: it
// is published after the first one.
func TestOrderOfALateCommitInAPass(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := new(fakeTable)
			if dead {
				f.add("dead", "held")
				f.rows[0].dead = true
			}
			commit := f.open("first", "k") // its transaction is open
			for i := range 100 {
				f.add(fmt.Sprint("other ", i), fmt.Sprint(i))
			}
			var order []string
			n := 0
			_, stop := start(t, f, OneByOne(func(_ context.Context, m Outgoing) error {
				if n++; n == 20 {
					commit()             // the first transaction is committed
					f.add("second", "k") // and only then the second one begins to add
				}
				if m.Key == "k" {
					order = append(order, m.ID)
				}
				time.Sleep(time.Millisecond)
				return nil
			}), &RelayOptions{Batch: 7})
			time.Sleep(time.Minute)
			synctest.Wait()
			if fmt.Sprint(order) != "[first second]" {
				t.Errorf("with a dead message of another key %v: published in the order %v", dead, order)
			}
			_ = stop()
		})
	}
}
