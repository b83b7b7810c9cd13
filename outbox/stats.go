package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// Stats are counts of the messages in the outbox.
type Stats struct {
	// Pending messages were committed and are not published yet. Waiting counts those of them that
	// have failed and are retried later.
	Pending, Waiting int
	// Dead messages are not retried; see [Outbox.Dead].
	Dead int
	// Oldest is the age of the oldest pending message; zero if there is none.
	Oldest time.Duration
}

// Stats counts the messages. It reads an index, so call it every few seconds, not for each message.
func (o *Outbox) Stats(ctx context.Context) (s Stats, err error) {
	err = o.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		s = Stats{}
		rows, err := tx.QueryContext(ctx, o.queries.stats)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var state, n, waiting int
			var age int64
			if err := rows.Scan(&state, &n, &waiting, &age); err != nil {
				return err
			}
			if state == stateDead {
				s.Dead = n
				continue
			}
			s.Pending, s.Waiting, s.Oldest = n, waiting, max(0, time.Duration(age)*time.Microsecond)
		}
		return rows.Err()
	})
	return s, o.explainError("count messages", err)
}

// DeadMessage is a message that the relay has given up. It holds up its key until it is redriven
// and published, or discarded, unless relays have [RelayOptions].SkipDead.
type DeadMessage struct {
	ID, Topic, Key string
	Attempts       int
	// Added is when Add was called, Died when the message became dead, on the database's clock.
	Added, Died time.Time
	// Error is the last error of the publisher, at most 1 000 bytes.
	Error string
	// Place is the argument after of the next call of Dead.
	Place int64
}

// Dead lists at most limit dead messages after a place (0: from the first), in the order in which
// they were added.
func (o *Outbox) Dead(ctx context.Context, after int64, limit int) (all []DeadMessage, err error) {
	err = o.inReadTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		all = nil
		rows, err := tx.QueryContext(ctx, o.queries.listDead, after, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m DeadMessage
			var id, topic, key, text []byte
			var added, died int64
			if err := rows.Scan(&m.Place, &id, &topic, &key, &m.Attempts, &added, &died, &text); err != nil {
				return err
			}
			m.ID, m.Topic, m.Key, m.Error = string(id), string(topic), string(key), string(text)
			m.Added, m.Died = time.UnixMicro(added), time.UnixMicro(died)
			all = append(all, m)
		}
		return rows.Err()
	})
	return all, o.explainError("list dead messages", err)
}

// Redrive makes dead messages pending again, with all their attempts available and at their place
// in the order of their key. It returns how many were dead.
func (o *Outbox) Redrive(ctx context.Context, ids ...string) (n int, err error) {
	return o.changeDead(ctx, "redrive messages", o.queries.redrive, ids)
}

// Discard removes dead messages for good and returns how many were dead. The messages after them
// continue.
func (o *Outbox) Discard(ctx context.Context, ids ...string) (n int, err error) {
	return o.changeDead(ctx, "discard messages", o.queries.discard, ids)
}

// mostIDs limits the ids of a statement.
const mostIDs = 1000

func (o *Outbox) changeDead(ctx context.Context, step string, query func([]string) (string, []any), ids []string) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	if len(ids) > mostIDs {
		return 0, errors.New("outbox: " + step + ": at most 1000 at once")
	}
	err = o.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		text, args := query(ids)
		count, err := sqlkit.Affected(tx.ExecContext(ctx, text, args...))
		n = int(count)
		return err
	})
	if err != nil {
		n = 0 // of what was committed nothing is known
	}
	return n, o.explainError(step, err)
}
