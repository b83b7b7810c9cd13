package guard

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Condition guards a balance: it subtracts only what is there.
//
//	UPDATE account SET amount = amount - ? WHERE id = ? AND amount >= ?
//
// It costs one statement, and a second one if nothing was subtracted. Concurrent calls never
// subtract more than there is.
//
// It does not detect duplicates: a second subtraction succeeds like the first. Use it inside
// retrysafe.DoTx, which keeps the request's key in the same transaction. A balance that is too
// small does not mean that the request is a duplicate.
//
// Table may be schema.table. ID is a column with a unique index. Column is the amount, in whole
// units of the smallest coin. A Condition is safe for concurrent use. It is meant to be a package
// variable and must not be copied after its first use.
type Condition struct {
	Table, ID, Column string

	plans planCache
}

// Subtract subtracts n, which must be greater than zero.
//
// Errors: [ErrRefused] if the balance is smaller than n or NULL, [ErrMissing], [ErrMisuse],
// [ErrLocked], and wrapped errors of the database. After each of them, roll back.
func (c *Condition) Subtract(ctx context.Context, tx dbtx.Tx, id any, n int64) error {
	p, err := c.plans.planFor(ctx, tx, func() tableSpec {
		return tableSpec{guard: "Condition", table: c.Table, unique: []string{c.ID}, column: c.Column}
	})
	if err != nil {
		return err
	}
	switch {
	case c.Column == "":
		return misuseError("Condition on table %s names no column of the amount; set Column", c.Table)
	case n <= 0:
		return misuseError("Subtract was asked to take %d; give it an amount above zero", n)
	}
	if err := checkID(id); err != nil {
		return err
	}
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ").name(c.Column).add(" = ").name(c.Column).add(" - ").value(n)
	s.add(" WHERE ").name(c.ID).add(" = ").value(id).add(" AND ").name(c.Column).add(" >= ").value(n)
	if done, err := p.runOnRow(ctx, tx, s); done || err != nil {
		return err
	}
	s = newStatement(p.d).add("SELECT 1 FROM ", p.quoted, " WHERE ").name(c.ID).add(" = ").value(id).readCurrent()
	var there int64
	switch err := tx.QueryRow(ctx, string(s.text), s.args, &there); {
	case errors.Is(err, sql.ErrNoRows):
		return p.missingError()
	case err != nil:
		return explainError(p.tableText, err)
	}
	return newFailure(ErrRefused, nil, "%s: the column %s has less than was to be taken, and nothing was; tell the client so, or retrysafe.Permanent to keep the refusal", p.tableText, c.Column)
}
