package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// ownerID identifies one life of a relay: from the time when it gets its lease to the time when it
// loses it.
type ownerID [16]byte

// hold is a partition that a relay has.
type hold struct {
	part  int
	owner ownerID
	fence int64
}

// partition is what a relay sees of a partition.
type partition struct {
	part int
	work bool // there are messages that are due
	free bool // no live relay has it
}

// outcome is the outcome of messages of one partition.
type outcome struct {
	published []int64 // by seq
	failed    []failure
}

// failure is a message that was not confirmed.
type failure struct {
	seq      int64
	attempts int
	wait     time.Duration
	dead     bool
	text     string
}

// table is what a relay needs of the database. Each call is one transaction, and can be repeated if
// its outcome is unknown.
type table interface {
	// ready returns an error if the tables are missing or have another version.
	ready(ctx context.Context) error
	// renew extends the lease of a relay, counted from the begin of the call or later. alive
	// reports whether it still has one.
	renew(ctx context.Context, owner ownerID, lease time.Duration) (alive bool, err error)
	// deal gives the relay free partitions, up to its share. It returns the partitions that the
	// relay has and how many it should have. first registers the relay. A relay that has a lease
	// only loses it in renew, so that no two relays have one partition.
	deal(ctx context.Context, owner ownerID, lease time.Duration, first bool) (mine []hold, share int, err error)
	// look reports which partitions have work.
	look(ctx context.Context) ([]partition, error)
	// held returns up to limit keys of a partition whose messages wait for an earlier one.
	held(ctx context.Context, h hold, limit int, skipDead bool) ([][hashSize]byte, error)
	// take reads the first messages of a pass that can be published now, in order. It returns none
	// if another relay has the partition. last reports that there are no more.
	take(ctx context.Context, h hold, limit int, skipDead bool, p *pass) (batch []Outgoing, last bool, err error)
	// mark stores the outcome of messages. If another relay has the partition, it stores nothing
	// and returns errLost.
	mark(ctx context.Context, h hold, out outcome) error
	release(ctx context.Context, h hold) error
	// leave ends the lease and frees all partitions of the relay.
	leave(ctx context.Context, owner ownerID) error
	// sweep removes some messages that were kept long enough. more reports that there may be
	// others.
	sweep(ctx context.Context) (more bool, err error)
}

// tables is the table of a database.
type tables struct{ *Outbox }

func (t tables) ready(ctx context.Context) error {
	var version int
	err := t.reading(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, t.queries.version).Scan(&version)
	})
	if err == nil && version != newest {
		err = fmt.Errorf("the tables are of version %d, and this program needs %d: call Migrate, or run the newer program", version, newest)
	}
	return t.explain("start a relay", err)
}

func (t tables) renew(ctx context.Context, owner ownerID, lease time.Duration) (alive bool, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := sqlkit.Affected(tx.ExecContext(ctx, t.queries.renew, lease.Microseconds(), owner[:]))
		alive = n > 0
		return err
	})
	return alive, t.explain("renew a lease", err)
}

func (t tables) deal(ctx context.Context, owner ownerID, lease time.Duration, first bool) (mine []hold, share int, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		mine, share = nil, 0
		// Only one relay at a time runs this, from here to the commit. Other relays can renew
		// meanwhile. If a lease has ended, its removal locks the row: that relay then finds that it
		// has no lease, or it renews first and keeps it.
		if _, err := tx.ExecContext(ctx, t.queries.turn); err != nil {
			return err
		}
		if first {
			if _, err := tx.ExecContext(ctx, t.queries.forget, owner[:]); err != nil {
				// of an earlier try whose reply was lost
				return err
			}
			if _, err := tx.ExecContext(ctx, t.queries.register, owner[:], lease.Microseconds()); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, t.queries.lapsed); err != nil {
			return err
		}
		live, err := t.relays(ctx, tx)
		if err != nil || !live[owner] {
			return err
		}
		share = (Partitions + len(live) - 1) / len(live)
		var free []hold
		if mine, free, err = t.parts(ctx, tx, owner, live); err != nil {
			return err
		}
		for _, h := range free {
			if len(mine) >= share {
				break
			}
			n, err := sqlkit.Affected(tx.ExecContext(ctx, t.queries.claim, owner[:], h.part, h.fence))
			if err != nil {
				return err
			}
			if n == 1 {
				mine = append(mine, hold{h.part, owner, h.fence + 1})
			}
		}
		return nil
	})
	return mine, share, t.explain("deal out partitions", err)
}

// relays returns the relays that have a lease.
func (t tables) relays(ctx context.Context, tx *sql.Tx) (map[ownerID]bool, error) {
	rows, err := tx.QueryContext(ctx, t.queries.relays)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	live := map[ownerID]bool{}
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		live[ownerID(id)] = true
	}
	return live, rows.Err()
}

func (t tables) parts(ctx context.Context, tx *sql.Tx, owner ownerID, live map[ownerID]bool) (mine, free []hold, err error) {
	rows, err := tx.QueryContext(ctx, t.queries.parts)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var h hold
		var id []byte
		if err := rows.Scan(&h.part, &id, &h.fence); err != nil {
			return nil, nil, err
		}
		owned := len(id) == len(h.owner) && live[ownerID(id)]
		switch {
		case !owned:
			free = append(free, h)
		case ownerID(id) == owner:
			h.owner = owner
			mine = append(mine, h)
		}
	}
	return mine, free, rows.Err()
}

func (t tables) look(ctx context.Context) (all []partition, err error) {
	err = t.reading(ctx, func(ctx context.Context, tx *sql.Tx) error {
		all = nil
		rows, err := tx.QueryContext(ctx, t.queries.look)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p partition
			if err := rows.Scan(&p.part, &p.work, &p.free); err != nil {
				return err
			}
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, t.explain("look for messages", err)
}

// takeBytes is how many bytes are read at once; the last message may exceed it.
const takeBytes = 4 << 20

func (t tables) held(ctx context.Context, h hold, limit int, skipDead bool) (held [][hashSize]byte, err error) {
	err = t.reading(ctx, func(ctx context.Context, tx *sql.Tx) error {
		held = nil
		rows, err := tx.QueryContext(ctx, t.queries.held(skipDead), h.part, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var hash []byte
			if err := rows.Scan(&hash); err != nil {
				return err
			}
			held = append(held, [hashSize]byte(hash))
		}
		return rows.Err()
	})
	return held, t.explain("read what is held up", err)
}

func (t tables) take(ctx context.Context, h hold, limit int, skipDead bool, p *pass) (batch []Outgoing, last bool, err error) {
	query, args := t.queries.take(skipDead, p.held, p.after)
	args = append(append([]any{h.part, p.after}, args...), h.part, h.owner[:], h.fence, limit)
	err = t.reading(ctx, func(ctx context.Context, tx *sql.Tx) error {
		batch, last = nil, true
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for size := 0; rows.Next(); {
			if size >= takeBytes {
				last = false
				break
			}
			m := Outgoing{Partition: h.part, Fence: uint64(h.fence)} //nolint:gosec // it counts up from zero
			var hash, id, topic, key, headers, contentType []byte
			var added int64
			if err := rows.Scan(&m.seq, &hash, &id, &topic, &key, &headers, &contentType, &added, &m.Attempt, &m.Payload); err != nil {
				return err
			}
			copy(m.hash[:], hash)
			m.ID, m.Topic, m.Key, m.ContentType = string(id), string(topic), string(key), string(contentType)
			if m.Headers, err = unpackHeaders(headers); err != nil {
				return err
			}
			m.Added = time.UnixMicro(added)
			m.Attempt++
			size += len(m.Payload) + len(headers)
			batch = append(batch, m)
		}
		last = last && len(batch) < limit
		return rows.Err()
	})
	return batch, last, t.explain("read messages", err)
}

func (t tables) mark(ctx context.Context, h hold, out outcome) error {
	err := t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if len(out.published) > 0 {
			done := t.queries.remove
			if t.keep > 0 {
				done = t.queries.retain
			}
			query, args := done(out.published)
			if _, err := tx.ExecContext(ctx, query, append(args, h.part, h.owner[:], h.fence)...); err != nil {
				return err
			}
		}
		for _, f := range out.failed {
			state := statePending
			if f.dead {
				state = stateDead
			}
			_, err := tx.ExecContext(ctx, t.queries.fail, state, f.wait.Microseconds(), f.attempts, []byte(f.text), f.seq, h.part, h.owner[:], h.fence)
			if err != nil {
				return err
			}
		}
		var holds int
		if err := tx.QueryRowContext(ctx, t.queries.holds, h.part, h.owner[:], h.fence).Scan(&holds); err != nil {
			return err
		}
		if holds == 0 {
			return errLost
		}
		return nil
	})
	if err == errLost { //nolint:errorlint // it is not wrapped
		return err
	}
	return t.explain("mark messages", err)
}

func (t tables) release(ctx context.Context, h hold) error {
	return t.explain("release a partition", t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, t.queries.release, h.part, h.owner[:], h.fence)
		return err
	}))
}

func (t tables) leave(ctx context.Context, owner ownerID) error {
	return t.explain("end a lease", t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, t.queries.forget, owner[:])
		return err
	}))
}

// sweepBatch is how many messages are removed in one transaction.
const sweepBatch = 1000

func (t tables) sweep(ctx context.Context) (more bool, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// also without Keep, since an earlier configuration may have had one
		n, err := sqlkit.Affected(tx.ExecContext(ctx, t.queries.sweep, t.keep.Microseconds(), sweepBatch))
		more = n == sweepBatch
		return err
	})
	return more, t.explain("remove what was kept", err)
}
