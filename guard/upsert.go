package guard

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Upsert replaces "select, then insert or update". With those, two concurrent requests both find no
// row, and both insert one.
//
//	INSERT INTO points (member, total) VALUES (?, ?) ON CONFLICT (member) DO UPDATE SET total = total + ?
//
// It costs one statement. On MySQL a conflict in any unique index counts. If the conflict is in
// another index, the statement fails and changes nothing. A second statement then updates the row
// of this index, and a third reads it if the second changed nothing.
//
// It does not detect duplicates. If the update has an [Add], a retry adds again; if it has plain
// values, a late retry overwrites what others have written since. Use it inside retrysafe.DoTx,
// which keeps the request's key in the same transaction.
//
// Columns are the columns of a unique index. They must not be NULL. Table may be schema.table. An
// Upsert is safe for concurrent use. It is meant to be a package variable and must not be copied
// after its first use.
type Upsert struct {
	Table   string
	Columns []string

	plans planCache
}

// Put inserts the row with the values of at in Columns and those of insert in other columns, or
// changes the existing row as update says. insert may be nil.
//
// Errors: [ErrConflict] if the row would be a duplicate in another unique index; also if another
// request inserts the very same row at this moment (a new transaction finds that row and updates
// it). [ErrMisuse], [ErrLocked], and wrapped errors of the database. After each of them, roll back.
func (u *Upsert) Put(ctx context.Context, tx dbtx.Tx, at, insert, update Set) error {
	p, err := u.plans.planFor(ctx, tx, func() tableSpec { return tableSpec{guard: "Upsert", table: u.Table, unique: u.Columns} })
	if err != nil {
		return err
	}
	names, err := u.checkColumns(p, at, insert, update)
	if err != nil {
		return err
	}
	s := u.buildStatement(p, names, at, insert, update)
	n, err := tx.Exec(ctx, string(s.text), s.args...)
	if p.d == dbtx.MySQL && dberr.MySQLNumber(err) == mysqlManyRows {
		return u.updateNamedRow(ctx, tx, p, err, at, update, names.changed)
	}
	if hit, duplicate := DuplicateKey(err); duplicate {
		return p.conflictError(hit, err)
	}
	if err != nil {
		return explainError(p.tableText, err)
	}
	if n == 0 && p.d != dbtx.MySQL {
		// MySQL counts no rows if the row has the new values already, and its triggers cannot skip
		// a write.
		return misuseError("%s: the database took the statement and wrote nothing; look for a trigger, a rule or a policy on the table that leaves the write out, and let it fail instead, or write without Upsert", p.tableText)
	}
	return nil
}

// upsertColumns are the columns of an upsert, in the order in which the statement has them.
type upsertColumns struct {
	written []string // in a new row
	changed []string // in a row that exists
}

// checkColumns checks the values of an upsert, and returns their columns.
func (u *Upsert) checkColumns(p *plan, at, insert, update Set) (*upsertColumns, error) {
	found, err := at.sortedColumns("the place", false)
	if err != nil {
		return nil, err
	}
	for _, c := range u.Columns {
		if v, ok := at[c]; !ok || isNull(v) || len(found) != len(u.Columns) {
			return nil, misuseError("the place of the row in table %s is to have a value for each of the columns of the unique index and for no other, and not NULL, which is equal to nothing; look at %s",
				u.Table, c)
		}
		if err := p.checkKind(c, at[c]); err != nil {
			return nil, err
		}
	}
	first, err := insert.sortedColumns("the new row", false, u.Columns...)
	if err != nil {
		return nil, err
	}
	changed, err := update.sortedColumns("the update", true, u.Columns...)
	if err != nil {
		return nil, err
	}
	if len(changed) == 0 {
		return nil, misuseError("the update is empty; name what changes in a row that is there, or use Unique where nothing does")
	}
	return &upsertColumns{written: append(found, first...), changed: changed}, nil
}

// buildStatement returns the INSERT that updates a row that exists.
func (u *Upsert) buildStatement(p *plan, names *upsertColumns, at, insert, update Set) *statement {
	value := func(c string) any {
		if v, ok := at[c]; ok {
			return v
		}
		return insert[c]
	}
	s := newStatement(p.d)
	if p.d == dbtx.MySQL {
		u.onDuplicate(s.insert(p.quoted, "", names.written, value), at, update, names.changed)
		return s
	}
	s.insert(p.quoted, " AS t", names.written, value).add(" ON CONFLICT (")
	for i, c := range u.Columns {
		if i > 0 {
			s.add(", ")
		}
		s.name(c)
	}
	s.add(") DO UPDATE SET ")
	for i, c := range names.changed {
		if i > 0 {
			s.add(", ")
		}
		s.assign(c, update[c], "t.")
	}
	return s
}

// mysqlManyRows is the error number with which the statement reports that it matched a row of
// another unique index.
const mysqlManyRows = 1242

// onDuplicate updates the row that at names. If another unique index matched a different row, the
// statement fails and undoes itself. The count of rows could not show that: it is the same for a
// row that has the new values already.
func (u *Upsert) onDuplicate(s *statement, at, update Set, changed []string) {
	s.add(" ON DUPLICATE KEY UPDATE ")
	for i, c := range changed {
		if i > 0 {
			s.add(", ").assign(c, update[c], "")
			continue
		}
		s.name(c).add(" = IF(")
		u.addWhere(s, at)
		// a subquery that returns two rows where one value is expected, so the statement fails
		s.add(", ").expression(c, update[c], "").add(", (SELECT ").name(c).add(" UNION ALL SELECT ").name(c).add("))")
	}
}

// updateNamedRow updates the row that at names after the INSERT has matched a row of another index.
func (u *Upsert) updateNamedRow(ctx context.Context, tx dbtx.Tx, p *plan, cause error, at, update Set, changed []string) error {
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ")
	for i, c := range changed {
		if i > 0 {
			s.add(", ")
		}
		s.assign(c, update[c], "")
	}
	u.addWhere(s.add(" WHERE "), at)
	n, err := tx.Exec(ctx, string(s.text), s.args...)
	if hit, duplicate := DuplicateKey(err); duplicate {
		return p.conflictError(hit, err)
	}
	if err != nil || n > 0 {
		return explainError(p.tableText, err)
	}
	// Either no row matched, or it has these values already.
	s = newStatement(p.d).add("SELECT 1 FROM ", p.quoted, " WHERE ")
	u.addWhere(s, at)
	var one int64
	err = p.queryRow(ctx, tx, s.readCurrent(), &one)
	if errors.Is(err, sql.ErrNoRows) {
		return p.conflictError(Duplicate{}, cause)
	}
	return err
}

// addWhere appends `column = value AND …`.
func (u *Upsert) addWhere(s *statement, at Set) {
	for i, c := range u.Columns {
		if i > 0 {
			s.add(" AND ")
		}
		s.name(c).add(" = ").value(at[c])
	}
}
