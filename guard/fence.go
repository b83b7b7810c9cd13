package guard

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// Fence refuses the writes of a holder that was paused, and does not know that another one has the
// lease or lock by now.
//
//	UPDATE job SET fence = ? WHERE id = ? AND (fence IS NULL OR fence <= ?)
//
// One statement, and one more where it changed nothing. The row is locked from then on until the
// transaction ends, so that a later holder's first write comes behind all that this one still does
// in it. Check it first in every transaction of the holder.
//
// It stops a stale holder once a later one has written, and not before: until then nobody can know
// that there is a later one. It is no guard against repeats by the holder itself.
//
// Table may be schema.table. ID is a column with a unique index. Column keeps the largest fence
// that was seen, a BIGINT; NULL is less than any. Fences come from retrysafe: of an attempt, or of
// a lock. A Fence is safe for concurrent use, is meant to be a variable of the package, and must
// not be copied after its first use.
//
// Source: Martin Kleppmann, "How to do distributed locking" (2016), on fencing tokens.
type Fence struct {
	Table, ID, Column string

	plans plans
}

// Check lets the holder with this fence, and none before it, write to the row in the rest of the
// transaction. It may be called again.
//
// Errors: [ErrFenced], [ErrMissing], [ErrMisuse], [ErrLocked], those of the database, wrapped.
// After each roll back.
func (f *Fence) Check(ctx context.Context, tx dbtx.Tx, id any, fence retrysafe.Fence) error {
	p, err := f.plans.open(ctx, tx, func() spec {
		return spec{guard: "Fence", table: f.Table, unique: []string{f.ID}, column: f.Column}
	})
	if err != nil {
		return err
	}
	switch {
	case f.Column == "":
		return misuse("Fence on table %s names no column of the fence; set Column", f.Table)
	case fence == 0:
		return misuse("the fence is zero, which no holder has; give that of the attempt or of the lock")
	case fence > math.MaxInt64:
		return misuse("the fence is too large for a BIGINT; give one that retrysafe made")
	}
	if err := checkID(id); err != nil {
		return err
	}
	n := int64(fence)
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ").name(f.Column).add(" = ").value(n)
	s.add(" WHERE ").name(f.ID).add(" = ").value(id).add(" AND (").name(f.Column).add(" IS NULL OR ").name(f.Column).add(" <= ").value(n).add(")")
	if done, err := p.one(ctx, tx, s); done || err != nil {
		return err
	}
	// MySQL has met the row and counts none, where the fence is the same as before.
	s = newStatement(p.d).add("SELECT CASE WHEN ").name(f.Column).add(" = ").value(n).add(" THEN 1 ELSE 0 END FROM ", p.quoted, " WHERE ").name(f.ID).add(" = ").value(id).current()
	var own int64
	switch err := tx.QueryRow(ctx, string(s.text), s.args, &own); {
	case errors.Is(err, sql.ErrNoRows):
		return p.missing()
	case err != nil:
		return explain(p.where, err)
	case own == 1 && p.d == dbtx.MySQL:
		return nil
	}
	return fail(ErrFenced, nil, "%s: a later holder has written to this row; stop, and write nothing more on behalf of this one", p.where)
}
