package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// rowWait is the longest that grouped changes wait for a row: a row that is held longer would delay
// all of them. MySQL rounds it to whole seconds.
const rowWait = 50 * time.Millisecond

// together makes changes in one transaction, with few statements whatever their number.
func (s server) together(changes []*change) error {
	wait, cancel := s.db.patience(context.Background(), time.Time{})
	defer cancel()
	wait.lock = rowWait
	call, cancel := context.WithTimeout(context.Background(), wait.limit+slack)
	defer cancel()
	for lost := 0; ; lost++ {
		err := s.transaction(call, wait, earliest(changes), func(ctx context.Context, w sqlkit.Execer) (bool, error) {
			begun := begin(changes)
			switch len(begun) {
			case 0:
				return false, nil
			case 1:
				if s.db.dialect == PostgreSQL { // the statements for many are slower for one
					return begun[0].apply(ctx, w)
				}
			}
			return changeAll(ctx, w, s.locking, begun)
		})
		var gone *lostError
		if lost == lostConnections || isOwn(err) || !errors.As(err, &gone) || s.manner.fate(err) != onlyLost || !sqlkit.Pause(wait) {
			return err
		}
	}
}

// see implements backend.
func (s server) see(ctx context.Context, of []*sight) error {
	return s.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) (err error) {
		if k := of[0]; len(of) == 1 {
			k.l, err = s.db.load(ctx, db, s.db.queries().load, k.id)
			return err
		}
		return seeMany(ctx, db, s.looking, of)
	})
}

func (s server) insertsFirst() bool { return s.locking.insertsFirst() }
