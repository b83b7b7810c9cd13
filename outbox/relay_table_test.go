package outbox //nolint:testpackage // a relay's table is not exported

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// fakeTable is a table in memory with one relevant partition, for tests about time. The behaviour
// of databases is tested on databases.
type fakeTable struct {
	mu          sync.Mutex
	rows        []fakeRow
	owner       ownerID
	leaseEnd    time.Time
	fence       int64
	holder      ownerID
	marks       int
	looks, read int
	seq         int64
	down        bool // the database does not answer
	// as SQLite: no transaction commits late, so nothing before a pass is looked for
	oneWriter bool
}

type fakeRow struct {
	m        Outgoing
	due      time.Time
	attempts int
	dead     bool
}

var errDown = errors.New("down")

func (f *fakeTable) enterCall() (func(), error) {
	f.mu.Lock()
	if f.down {
		f.mu.Unlock()
		return nil, errDown
	}
	return f.mu.Unlock, nil
}

func (f *fakeTable) add(id, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := Message{ID: id, Topic: "t", Key: key}
	hash, _ := m.keyHash()
	f.seq++
	f.rows = append(f.rows, fakeRow{m: Outgoing{Message: m, seq: f.seq, hash: hash, Added: time.Now()}})
}

func (f *fakeTable) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fakeTable) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rows)
}

func (f *fakeTable) lookCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

func (f *fakeTable) checkVersion(context.Context) error { return nil }

func (f *fakeTable) renewLease(_ context.Context, owner ownerID, lease time.Duration) (bool, error) {
	leave, err := f.enterCall()
	if err != nil {
		return false, err
	}
	defer leave()
	if f.owner != owner || !time.Now().Before(f.leaseEnd) {
		return false, nil
	}
	f.leaseEnd = time.Now().Add(lease)
	return true, nil
}

func (f *fakeTable) dealPartitions(_ context.Context, owner ownerID, lease time.Duration, first bool) ([]heldPartition, int, error) {
	leave, err := f.enterCall()
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if first {
		f.owner, f.leaseEnd = owner, time.Now().Add(lease)
	}
	if f.holder != owner {
		f.holder = owner
		f.fence++
	}
	return []heldPartition{{0, owner, f.fence}}, 1, nil
}

func (f *fakeTable) readPartitions(context.Context) ([]partitionState, error) {
	leave, err := f.enterCall()
	if err != nil {
		return nil, err
	}
	defer leave()
	f.looks++
	work := slices.ContainsFunc(f.rows, func(r fakeRow) bool { return !r.dead && !r.due.After(time.Now()) })
	return []partitionState{{0, work, false}}, nil
}

func (f *fakeTable) heldKeys(_ context.Context, _ heldPartition, limit int, _ bool) (held [][hashSize]byte, err error) {
	leave, err := f.enterCall()
	if err != nil {
		return nil, err
	}
	defer leave()
	for _, r := range f.rows {
		if (r.dead || r.due.After(time.Now())) && !slices.Contains(held, r.m.hash) && len(held) < limit {
			held = append(held, r.m.hash)
		}
	}
	return held, nil
}

func (f *fakeTable) readBatch(_ context.Context, h heldPartition, limit int, _ bool, p *partitionPass) (batch []Outgoing, last bool, err error) {
	leave, err := f.enterCall()
	if err != nil {
		return nil, false, err
	}
	defer leave()
	held := map[[hashSize]byte]bool{}
	for _, hash := range p.held {
		held[hash] = true
	}
	for _, r := range f.rows {
		if r.m.seq > p.after && len(batch) < limit {
			f.read++
		}
		if r.m.seq <= p.after && !f.oneWriter {
			held[r.m.hash] = true // its transaction has committed late: it comes first
		}
		if r.dead || r.due.After(time.Now()) {
			held[r.m.hash] = true
		}
		if h.fence != f.fence || held[r.m.hash] || len(batch) == limit || r.m.seq <= p.after {
			continue
		}
		m := r.m
		m.Attempt = r.attempts + 1
		batch = append(batch, m)
	}
	return batch, len(batch) < limit, nil
}

func (f *fakeTable) markOutcome(_ context.Context, h heldPartition, out markedOutcome) error {
	leave, err := f.enterCall()
	if err != nil {
		return err
	}
	defer leave()
	if h.fence != f.fence {
		return errPartitionLost
	}
	f.marks++
	f.rows = slices.DeleteFunc(f.rows, func(r fakeRow) bool { return slices.Contains(out.published, r.m.seq) })
	for _, fail := range out.failed {
		for i := range f.rows {
			if f.rows[i].m.seq == fail.seq {
				f.rows[i].due, f.rows[i].attempts, f.rows[i].dead = time.Now().Add(fail.wait), fail.attempts, fail.dead
			}
		}
	}
	return nil
}

func (f *fakeTable) releasePartition(context.Context, heldPartition) error { return nil }
func (f *fakeTable) endLease(context.Context, ownerID) error               { return nil }
func (f *fakeTable) sweepKept(context.Context) (bool, error)               { return false, nil }
