package guard

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Fence refuses the writes of a holder that was paused and does not know that another one has the
// lease or lock now.
//
//	UPDATE job SET fence = ? WHERE id = ? AND (fence IS NULL OR fence <= ?)
//
// It costs one statement, and a second one if the first changed nothing. The row stays locked until
// the transaction ends, so the first write of a later holder comes after everything that this
// holder does in the transaction. Call Check first in every transaction of the holder.
//
// It stops a stale holder only after a later holder has written. Before that, no one can know that
// there is a later one. It does not detect duplicates of the holder's own writes.
//
// Table may be schema.table. ID is a column with a unique index. Column stores the largest fence
// that was seen, as a BIGINT; NULL is less than any fence. Fences come from retrysafe: from an
// attempt or from a lock. A Fence is safe for concurrent use. It is meant to be a package variable
// and must not be copied after its first use.
//
// Source: Martin Kleppmann, "How to do distributed locking" (2016), on fencing tokens.
type Fence struct {
	Table, ID, Column string

	plans planCache
}

// Check refuses the holder if the row has seen a larger fence. Otherwise this holder, and no
// earlier one, can write to the row in the rest of the transaction. Check can be called more than
// once.
//
// Errors: [ErrFenced], [ErrMissing], [ErrMisuse], [ErrLocked], and wrapped errors of the database.
// After each of them, roll back.
func (f *Fence) Check(ctx context.Context, tx dbtx.Tx, id any, fence retrysafe.Fence) error {
	p, err := f.plans.planFor(ctx, tx, func() tableSpec {
		return tableSpec{guard: "Fence", table: f.Table, unique: []string{f.ID}, column: f.Column}
	})
	if err != nil {
		return err
	}
	switch {
	case f.Column == "":
		return misuseError("Fence on table %s names no column of the fence; set Column", f.Table)
	case fence == 0:
		return misuseError("the fence is zero, which no holder has; give that of the attempt or of the lock")
	case fence > math.MaxInt64:
		return misuseError("the fence is too large for a BIGINT; give one that retrysafe made")
	}
	if err := checkID(id); err != nil {
		return err
	}
	n := int64(fence)
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ").name(f.Column).add(" = ").value(n)
	s.add(" WHERE ").name(f.ID).add(" = ").value(id).add(" AND (").name(f.Column).add(" IS NULL OR ").name(f.Column).add(" <= ").value(n).add(")")
	if done, err := p.runOnRow(ctx, tx, s); done || err != nil {
		return err
	}
	// MySQL matched the row but counts no change if the fence is the same as before.
	s = newStatement(p.d).add("SELECT CASE WHEN ").name(f.Column).add(" = ").value(n).add(" THEN 1 ELSE 0 END FROM ", p.quoted, " WHERE ").name(f.ID).add(" = ").value(id).readCurrent()
	var own int64
	switch err := tx.QueryRow(ctx, string(s.text), s.args, &own); {
	case errors.Is(err, sql.ErrNoRows):
		return p.missingError()
	case err != nil:
		return explainError(p.tableText, err)
	case own == 1 && p.d == dbtx.MySQL:
		return nil
	}
	return newFailure(ErrFenced, nil, "%s: a later holder has written to this row; stop, and write nothing more on behalf of this one", p.tableText)
}
