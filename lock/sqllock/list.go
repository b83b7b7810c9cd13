package sqllock

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

var _ lock.Lister = (*Table)(nil)

// List implements [lock.Lister]: one statement, which reads the locks that are held by an index,
// and lists them in the order of their names' bytes. Of more than 100,000 that are held at once, it
// lists those whose leases end first. It does not know how many processes wait.
//
// A [Session] does not list its locks: the server knows them by hashes of their names only.
func (t *Table) List(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
	if ctx.Err() != nil {
		return lock.Page{}, context.Cause(ctx)
	}
	size := r.Size()
	var p lock.Page
	err := retryBlocked(ctx, func() error {
		p = lock.Page{}
		rows, err := t.db.QueryContext(ctx, t.queries.list, []byte(r.After), size+1)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name []byte
			var fence, left int64
			if err := rows.Scan(&name, &fence, &left); err != nil {
				return err
			}
			if len(p.Locks) == size {
				p.Next = p.Locks[size-1].Name
				continue
			}
			p.Locks = append(p.Locks, lock.Held{
				Name: string(name), Fence: retrysafe.Fence(fence), //nolint:gosec // it is a time
				Lease: max(0, time.Duration(left)*time.Microsecond), Waiting: -1,
			})
		}
		return rows.Err()
	})
	if err != nil {
		return lock.Page{}, explainError("list the locks", t.o.Table, err)
	}
	return p, nil
}
