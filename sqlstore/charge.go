package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

var (
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
)

// Charge implements [storeapi.Limiter]. Each tenant has one row. Concurrent charges of a tenant
// share one write, unless [Options.NoGroupCommit] is set. A refused charge only reads, so a flood
// of them delays no other call. A charge that waited for the file in vain returns
// [storeapi.ErrTooLate].
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	charged, err := s.charge(ctx, req)
	var lock *lockError
	if errors.As(err, &lock) {
		err = fmt.Errorf("%w: %w", storeapi.ErrTooLate, err)
	}
	return charged, err
}

func (s *Store) charge(ctx context.Context, req storeapi.ChargeRequest) (charged storeapi.Charged, err error) {
	if err := s.enter(ctx); err != nil {
		return storeapi.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Charged{}, err
	}
	c := &charging{id: idOfName(protocol.UsageName(req.Namespace, req.Tenant)), req: req, done: make(chan struct{})}
	if s.group != nil {
		err = s.chargeTogether(ctx, c)
	} else {
		err = s.chargeAlone(ctx, c)
	}
	if err != nil {
		return storeapi.Charged{}, s.db.failed("count", err)
	}
	return c.got, nil
}

// Usage implements [storeapi.UsageReader]. It reads one row, and never waits for a writer.
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (out storeapi.Usage, err error) {
	if err := s.enter(ctx); err != nil {
		return out, err
	}
	if err := req.Validate(); err != nil {
		return out, err
	}
	id := idOfName(protocol.UsageName(req.Namespace, req.Tenant))
	err = s.backend.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		u, err := s.loadUsage(ctx, db, s.db.queries().loadUsage, id)
		out = u.Report(u.now)
		return err
	})
	if err != nil {
		return storeapi.Usage{}, s.db.failed("read the counts", err)
	}
	return out, nil
}

// chargeAlone makes a charge in its own transaction, unless it is refused.
func (s *Store) chargeAlone(ctx context.Context, c *charging) error {
	of := []*charging{c}
	write := false
	err := s.backend.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		u, err := s.loadUsage(ctx, db, s.db.queries().loadUsage, c.id)
		_, write = decide(&u, of)
		return err
	})
	if err != nil || !write {
		return err
	}
	return s.backend.write(ctx, c.id, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return s.chargeTenant(ctx, w, of)
	})
}

// chargeTenant makes the charges of one tenant. It may be called again for the same charges; the
// last call counts.
func (s *Store) chargeTenant(ctx context.Context, w sqlkit.Execer, of []*charging) (wrote bool, err error) {
	for len(of) > 0 {
		u, err := s.loadUsage(ctx, w, s.db.queries().loadUsageToWrite, of[0].id)
		if err != nil {
			return false, err
		}
		counts, write := decide(&u, of)
		if !write {
			return false, nil
		}
		if done, err := s.putUsage(ctx, w, of[0].id, &of[0].req, &u, &counts); done || err != nil {
			return true, err
		}
	}
	return false, nil
}

// decide applies the charges of one tenant to the loaded counts.
func decide(u *usage, of []*charging) (counts protocol.Usage, write bool) {
	counts = u.Usage
	for _, c := range of {
		next, got, changed := protocol.Charge(counts, u.now, &c.req)
		c.got = got
		if changed {
			counts, write = next, true
		}
	}
	return counts, write
}

// usage is the input of a charge's decision.
type usage struct {
	protocol.Usage
	there bool            // the row exists
	now   protocol.Micros // the store's clock
}

// loadUsage reads the counts, and checks in the same statement whether this build may use the
// tables.
func (s *Store) loadUsage(ctx context.Context, db sqlkit.Execer, query string, id recordID) (u usage, err error) {
	var version int
	var counts []byte
	var now sql.NullInt64
	u.now = s.db.clock().UnixMicro()
	err = db.QueryRowContext(ctx, query, id[:]).Scan(&version, &now, &counts)
	if err := s.db.readable(version, err); err != nil {
		return u, err
	}
	u.now, u.there = s.db.time(now, u.now), counts != nil
	if u.Usage, err = protocol.ParseUsage(counts); err != nil {
		return u, stateError("sqlstore: " + err.Error())
	}
	return u, nil
}

// putUsage replaces the loaded counts. It returns false if there was no row, and another call has
// inserted one meanwhile.
func (s *Store) putUsage(ctx context.Context, db sqlkit.Execer, id recordID, req *storeapi.ChargeRequest, was *usage, u *protocol.Usage) (done bool, err error) {
	if u.Empty() {
		_, err := db.ExecContext(ctx, s.db.queries().dropUsage, id[:])
		return true, err
	}
	counts, err := u.AppendBinary(nil)
	if err != nil {
		return false, err
	}
	query := s.db.queries().makeUsage
	if was.there {
		query = s.db.queries().putUsage
	}
	r, err := db.ExecContext(ctx, query, id[:], []byte(req.Namespace), []byte(req.Tenant), u.Expires(), counts)
	if err != nil || was.there {
		return err == nil, err // MySQL counts no row if nothing has changed
	}
	return s.db.queries().made(r)
}

// sweepUsage removes tenants without any live count. It takes the lock only if there are some.
func (s *Store) sweepUsage(ctx context.Context) error {
	for {
		some, now, err := s.expiredUsage(ctx)
		if err != nil || !some {
			return s.db.failed("look for expired counts", err)
		}
		var removed bool
		err = s.backend.write(ctx, recordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
			removed, err = s.removeUsage(ctx, w, now)
			return true, err
		})
		if err != nil || !removed {
			return s.db.failed("remove expired counts", err)
		}
	}
}

// removeUsage removes a batch of them.
func (s *Store) removeUsage(ctx context.Context, w sqlkit.Execer, now protocol.Micros) (removed bool, err error) {
	if s.db.queries().lockOldUsage == "" {
		r, err := w.ExecContext(ctx, s.db.queries().removeUsage, now, sweepBatch)
		if err != nil {
			return false, err
		}
		return byCount(r)
	}
	ids, _, err := lockedRows(ctx, w, s.db.queries().lockOldUsage, now, sweepBatch)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	_, err = w.ExecContext(ctx, s.db.queries().dropOldUsage(len(ids)), ids...)
	return err == nil, err
}

func (s *Store) expiredUsage(ctx context.Context) (some bool, now protocol.Micros, err error) {
	err = s.backend.read(ctx, long, func(ctx context.Context, db sqlkit.Execer) error {
		u, err := s.loadUsage(ctx, db, s.db.queries().loadUsage, recordID{}) // for the time
		if err != nil {
			return err
		}
		now = u.now
		var n int
		err = db.QueryRowContext(ctx, s.db.queries().expiredUsage, now).Scan(&n)
		some = n > 0
		return err
	})
	return some, now, err
}
