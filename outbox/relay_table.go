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

// heldPartition is a partition that a relay has.
type heldPartition struct {
	part  int
	owner ownerID
	fence int64
}

// partitionState is what a relay sees of a partition.
type partitionState struct {
	part    int
	hasWork bool // there are messages that are due
	free    bool // no live relay has it
}

// markedOutcome is the outcome of messages of one partition.
type markedOutcome struct {
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

// relayTable is what a relay needs of the database. Each call is one transaction, and can be
// repeated if its outcome is unknown.
type relayTable interface {
	// checkVersion returns an error if the tables are missing or have another version.
	checkVersion(ctx context.Context) error
	// renewLease extends the lease of a relay, counted from the begin of the call or later. alive
	// reports whether it still has one.
	renewLease(ctx context.Context, owner ownerID, lease time.Duration) (alive bool, err error)
	// dealPartitions gives the relay free partitions, up to its share. It returns the partitions
	// that the relay has and how many it should have. first registers the relay. A relay that has a
	// lease only loses it in renewLease, so that no two relays have one partition.
	dealPartitions(ctx context.Context, owner ownerID, lease time.Duration, first bool) (mine []heldPartition, share int, err error)
	// readPartitions reports which partitions have work.
	readPartitions(ctx context.Context) ([]partitionState, error)
	// heldKeys returns up to limit keys of a partition whose messages wait for an earlier one.
	heldKeys(ctx context.Context, h heldPartition, limit int, skipDead bool) ([][hashSize]byte, error)
	// readBatch reads the first messages of a pass that can be published now, in order. It returns
	// none if another relay has the partition. last reports that there are no more.
	readBatch(ctx context.Context, h heldPartition, limit int, skipDead bool, p *partitionPass) (batch []Outgoing, last bool, err error)
	// markOutcome stores the outcome of messages. If another relay has the partition, it stores
	// nothing and returns errPartitionLost.
	markOutcome(ctx context.Context, h heldPartition, out markedOutcome) error
	releasePartition(ctx context.Context, h heldPartition) error
	// endLease ends the lease and frees all partitions of the relay.
	endLease(ctx context.Context, owner ownerID) error
	// sweepKept removes some messages that were kept long enough. more reports that there may be
	// others.
	sweepKept(ctx context.Context) (more bool, err error)
}

// sqlRelayTable is the table of a database.
type sqlRelayTable struct{ *Outbox }

func (t sqlRelayTable) checkVersion(ctx context.Context) error {
	var version int
	err := t.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, t.queries.version).Scan(&version)
	})
	if err == nil && version != newestVersion {
		err = fmt.Errorf("the tables are of version %d, and this program needs %d: call Migrate, or run the newer program", version, newestVersion)
	}
	return t.explainError("start a relay", err)
}

func (t sqlRelayTable) renewLease(ctx context.Context, owner ownerID, lease time.Duration) (alive bool, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := sqlkit.Affected(tx.ExecContext(ctx, t.queries.renew, lease.Microseconds(), owner[:]))
		alive = n > 0
		return err
	})
	return alive, t.explainError("renew a lease", err)
}

func (t sqlRelayTable) dealPartitions(ctx context.Context, owner ownerID, lease time.Duration, first bool) (mine []heldPartition, share int, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		mine, share = nil, 0
		// Only one relay at a time runs this, from here to the commit. Other relays can renew
		// meanwhile. If a lease has ended, its removal locks the row: that relay then finds that it
		// has no lease, or it renews first and keeps it.
		if _, err := tx.ExecContext(ctx, t.queries.lockDeal); err != nil {
			return err
		}
		if first {
			if _, err := tx.ExecContext(ctx, t.queries.dropRelay, owner[:]); err != nil {
				// of an earlier try whose reply was lost
				return err
			}
			if _, err := tx.ExecContext(ctx, t.queries.register, owner[:], lease.Microseconds()); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, t.queries.dropLapsed); err != nil {
			return err
		}
		live, err := t.liveRelays(ctx, tx)
		if err != nil || !live[owner] {
			return err
		}
		share = (Partitions + len(live) - 1) / len(live)
		var free []heldPartition
		if mine, free, err = t.splitPartitions(ctx, tx, owner, live); err != nil {
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
				mine = append(mine, heldPartition{h.part, owner, h.fence + 1})
			}
		}
		return nil
	})
	return mine, share, t.explainError("deal out partitions", err)
}

// liveRelays returns the relays that have a lease.
func (t sqlRelayTable) liveRelays(ctx context.Context, tx *sql.Tx) (map[ownerID]bool, error) {
	rows, err := tx.QueryContext(ctx, t.queries.listRelays)
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

func (t sqlRelayTable) splitPartitions(ctx context.Context, tx *sql.Tx, owner ownerID, live map[ownerID]bool) (mine, free []heldPartition, err error) {
	rows, err := tx.QueryContext(ctx, t.queries.listPartitions)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var h heldPartition
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

func (t sqlRelayTable) readPartitions(ctx context.Context) (all []partitionState, err error) {
	err = t.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		all = nil
		rows, err := tx.QueryContext(ctx, t.queries.partitionWork)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p partitionState
			if err := rows.Scan(&p.part, &p.hasWork, &p.free); err != nil {
				return err
			}
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, t.explainError("look for messages", err)
}

// maxBatchBytes is how many bytes are read at once; the last message may exceed it.
const maxBatchBytes = 4 << 20

func (t sqlRelayTable) heldKeys(ctx context.Context, h heldPartition, limit int, skipDead bool) (held [][hashSize]byte, err error) {
	err = t.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		held = nil
		rows, err := tx.QueryContext(ctx, t.queries.heldKeys(skipDead), h.part, limit)
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
	return held, t.explainError("read what is held up", err)
}

func (t sqlRelayTable) readBatch(ctx context.Context, h heldPartition, limit int, skipDead bool, p *partitionPass) (batch []Outgoing, last bool, err error) {
	query, args := t.queries.readBatch(skipDead, p.held, p.after)
	args = append(append([]any{h.part, p.after}, args...), h.part, h.owner[:], h.fence, limit)
	err = t.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		batch, last = nil, true
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for size := 0; rows.Next(); {
			if size >= maxBatchBytes {
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
	return batch, last, t.explainError("read messages", err)
}

func (t sqlRelayTable) markOutcome(ctx context.Context, h heldPartition, out markedOutcome) error {
	err := t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if len(out.published) > 0 {
			done := t.queries.remove
			if t.keep > 0 {
				done = t.queries.markPublished
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
			_, err := tx.ExecContext(ctx, t.queries.markFailed, state, f.wait.Microseconds(), f.attempts, []byte(f.text), f.seq, h.part, h.owner[:], h.fence)
			if err != nil {
				return err
			}
		}
		var holds int
		if err := tx.QueryRowContext(ctx, t.queries.stillOwned, h.part, h.owner[:], h.fence).Scan(&holds); err != nil {
			return err
		}
		if holds == 0 {
			return errPartitionLost
		}
		return nil
	})
	if err == errPartitionLost { //nolint:errorlint // it is not wrapped
		return err
	}
	return t.explainError("mark messages", err)
}

func (t sqlRelayTable) releasePartition(ctx context.Context, h heldPartition) error {
	return t.explainError("release a partition", t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, t.queries.release, h.part, h.owner[:], h.fence)
		return err
	}))
}

func (t sqlRelayTable) endLease(ctx context.Context, owner ownerID) error {
	return t.explainError("end a lease", t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, t.queries.dropRelay, owner[:])
		return err
	}))
}

// sweepBatch is how many messages are removed in one transaction.
const sweepBatch = 1000

func (t sqlRelayTable) sweepKept(ctx context.Context) (more bool, err error) {
	err = t.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// also without Keep, since an earlier configuration may have had one
		n, err := sqlkit.Affected(tx.ExecContext(ctx, t.queries.sweep, t.keep.Microseconds(), sweepBatch))
		more = n == sweepBatch
		return err
	})
	return more, t.explainError("remove what was kept", err)
}
