package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

var _ retrysafe.Limiter = (*Store)(nil)

// Charge implements [retrysafe.Limiter]: one row for each tenant, and one transaction for each charge that is taken. One that is refused
// only reads, so that a flood of them holds up nobody. One that waited for the file in vain is [retrysafe.ErrTooLate].
func (s *Store) Charge(ctx context.Context, req retrysafe.ChargeRequest) (retrysafe.Charged, error) {
	charged, err := s.charge(ctx, req)
	var lock *lockError
	if errors.As(err, &lock) {
		err = fmt.Errorf("%w: %w", retrysafe.ErrTooLate, err)
	}
	return charged, err
}

func (s *Store) charge(ctx context.Context, req retrysafe.ChargeRequest) (charged retrysafe.Charged, err error) {
	if err := s.enter(ctx); err != nil {
		return retrysafe.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return retrysafe.Charged{}, err
	}
	id := recordID(sha256.Sum256(protocol.UsageName(req.Namespace, req.Tenant)))
	u, err := s.lookUsage(ctx, id)
	if err != nil {
		return retrysafe.Charged{}, s.failed("read counts", err)
	}
	var write bool
	if _, charged, write = protocol.Charge(u, s.clock().UnixMicro(), &req); !write {
		return charged, nil
	}
	err = s.write(ctx, time.Time{}, func(ctx context.Context, w *session) (bool, error) {
		u, err := s.loadUsage(ctx, w, id)
		if err != nil {
			return false, err
		}
		var next protocol.Usage
		if next, charged, write = protocol.Charge(u, s.clock().UnixMicro(), &req); !write {
			return false, nil
		}
		return true, s.putUsage(ctx, w, id, &req, &next)
	})
	if err != nil {
		return retrysafe.Charged{}, s.failed("write counts", err)
	}
	return charged, nil
}

// lookUsage reads the counts outside of any transaction of its own.
func (s *Store) lookUsage(ctx context.Context, id recordID) (u protocol.Usage, err error) {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	err = retry(wait, func() error {
		se, err := s.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		u, err = s.loadUsage(context.WithoutCancel(ctx), se, id)
		return err
	})
	return u, wait.over(err)
}

// loadUsage reads the counts, and in the same step whether this build may touch them.
func (s *Store) loadUsage(ctx context.Context, db execer, id recordID) (u protocol.Usage, err error) {
	var version int
	var counts []byte
	err = db.QueryRowContext(ctx, s.queries.loadUsage, id[:]).Scan(&version, &counts)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return u, s.notMigrated()
	case err != nil:
		return u, err
	case version != schemaVersion:
		return u, s.wrongVersion(version)
	}
	return protocol.ParseUsage(counts)
}

func (s *Store) putUsage(ctx context.Context, db execer, id recordID, req *retrysafe.ChargeRequest, u *protocol.Usage) error {
	if u.Empty() {
		_, err := db.ExecContext(ctx, s.queries.dropUsage, id[:])
		return err
	}
	counts, err := u.AppendBinary(nil)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, s.queries.putUsage, id[:], []byte(req.Namespace), []byte(req.Tenant), u.Expires(), counts)
	return err
}

// sweepUsage removes the counts of tenants of whom nothing counts any more. It takes the lock for that only.
func (s *Store) sweepUsage(ctx context.Context) error {
	for {
		some, err := s.expiredUsage(ctx)
		if err != nil || !some {
			return s.failed("look for expired counts", err)
		}
		err = s.write(ctx, time.Time{}, func(ctx context.Context, w *session) (bool, error) {
			_, err := w.ExecContext(ctx, s.queries.removeUsage, s.clock().UnixMicro(), sweepBatch)
			return true, err
		})
		if err != nil {
			return s.failed("remove expired counts", err)
		}
	}
}

func (s *Store) expiredUsage(ctx context.Context) (some bool, err error) {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	err = retry(wait, func() error {
		se, err := s.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		var n int
		err = se.QueryRowContext(ctx, s.queries.expiredUsage, s.clock().UnixMicro()).Scan(&n)
		some = n > 0
		return err
	})
	return some, wait.over(err)
}
