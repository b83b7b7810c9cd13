package guard

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// Upsert stands in the place of "select, then insert or update", which two requests at once get
// through together: both find no row, and both make one.
//
//	INSERT INTO points (member, total) VALUES (?, ?) ON CONFLICT (member) DO UPDATE SET total = total + ?
//
// One statement. MySQL takes a row of any unique index for the one that is meant; where that
// happens the statement fails and has changed nothing, and the row of this index is changed by a
// second one, and looked at by a third where that has changed nothing.
//
// It is no guard against repeats where the update has an [Add], and a late retry undoes what others
// have written since where it has plain values: use it inside of retrysafe.DoTx, which keeps the
// request's key in the same transaction.
//
// Columns are those of a unique index, and have no NULL. Table may be schema.table. An Upsert is
// safe for concurrent use, is meant to be a variable of the package, and must not be copied after
// its first use.
type Upsert struct {
	Table   string
	Columns []string

	plans plans
}

// Put makes the row that has the values of at in Columns, with those of insert beside them, or
// changes the one that is there as update says. insert may be nil.
//
// Errors: [ErrConflict] where the row would be a second one in another unique index (also where
// another request makes the very same row at this moment: a new transaction finds it there, and
// changes it), [ErrMisuse], [ErrLocked], those of the database, wrapped. After each roll back.
func (u *Upsert) Put(ctx context.Context, tx dbtx.Tx, at, insert, update Set) error {
	p, err := u.plans.open(ctx, tx, func() spec { return spec{guard: "Upsert", table: u.Table, unique: u.Columns} })
	if err != nil {
		return err
	}
	found, err := at.columns("the place", false)
	if err != nil {
		return err
	}
	for _, c := range u.Columns {
		if v, ok := at[c]; !ok || isNull(v) || len(found) != len(u.Columns) {
			return misuse("the place of the row in table %s is to have a value for each of the columns of the unique index and for no other, and not NULL, which is equal to nothing; look at %s",
				u.Table, c)
		}
		if err := p.compares(c, at[c]); err != nil {
			return err
		}
	}
	first, err := insert.columns("the new row", false, u.Columns...)
	if err != nil {
		return err
	}
	changed, err := update.columns("the update", true, u.Columns...)
	if err != nil {
		return err
	}
	if len(changed) == 0 {
		return misuse("the update is empty; name what changes in a row that is there, or use Unique where nothing does")
	}
	value := func(c string) any {
		if v, ok := at[c]; ok {
			return v
		}
		return insert[c]
	}
	s := newStatement(p.d)
	if p.d == dbtx.MySQL {
		u.onDuplicate(s.insert(p.quoted, "", append(found, first...), value), at, update, changed)
	} else {
		s.insert(p.quoted, " AS t", append(found, first...), value).add(" ON CONFLICT (")
		for i, c := range u.Columns {
			if i > 0 {
				s.add(", ")
			}
			s.name(c)
		}
		s.add(") DO UPDATE SET ")
		for i, c := range changed {
			if i > 0 {
				s.add(", ")
			}
			s.assign(c, update[c], "t.")
		}
	}
	n, err := tx.Exec(ctx, string(s.text), s.args...)
	if p.d == dbtx.MySQL && dberr.MySQLNumber(err) == mysqlManyRows {
		return u.other(ctx, tx, p, err, at, update, changed)
	}
	if hit, duplicate := DuplicateKey(err); duplicate {
		return p.conflict(hit, err)
	}
	if err != nil {
		return explain(p.where, err)
	}
	if n == 0 && p.d != dbtx.MySQL {
		// which counts none where the row has the new values already, and whose triggers cannot
		// leave a write out
		return misuse("%s: the database took the statement and wrote nothing; look for a trigger, a rule or a policy on the table that leaves the write out, and let it fail instead, or write without Upsert", p.where)
	}
	return nil
}

// mysqlManyRows is the number of the error by which the statement says that it has met a row of
// another unique index.
const mysqlManyRows = 1242

// onDuplicate changes the row that is meant. On a row that another unique index has found the
// statement fails, and undoes itself: by its count of rows nobody could tell that from a row that
// has the new values already.
func (u *Upsert) onDuplicate(s *statement, at, update Set, changed []string) {
	s.add(" ON DUPLICATE KEY UPDATE ")
	for i, c := range changed {
		if i > 0 {
			s.add(", ").assign(c, update[c], "")
			continue
		}
		s.name(c).add(" = IF(")
		u.where(s, at)
		// two rows in the place of one value
		s.add(", ").expression(c, update[c], "").add(", (SELECT ").name(c).add(" UNION ALL SELECT ").name(c).add("))")
	}
}

// other changes the row that is meant where the INSERT has met another one too.
func (u *Upsert) other(ctx context.Context, tx dbtx.Tx, p *plan, cause error, at, update Set, changed []string) error {
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ")
	for i, c := range changed {
		if i > 0 {
			s.add(", ")
		}
		s.assign(c, update[c], "")
	}
	u.where(s.add(" WHERE "), at)
	n, err := tx.Exec(ctx, string(s.text), s.args...)
	if hit, duplicate := DuplicateKey(err); duplicate {
		return p.conflict(hit, err)
	}
	if err != nil || n > 0 {
		return explain(p.where, err)
	}
	// None was met, or one that has these values already.
	s = newStatement(p.d).add("SELECT 1 FROM ", p.quoted, " WHERE ")
	u.where(s, at)
	var one int64
	err = p.row(ctx, tx, s.current(), &one)
	if errors.Is(err, sql.ErrNoRows) {
		return p.conflict(Duplicate{}, cause)
	}
	return err
}

// where appends `column = value AND …`.
func (u *Upsert) where(s *statement, at Set) {
	for i, c := range u.Columns {
		if i > 0 {
			s.add(" AND ")
		}
		s.name(c).add(" = ").value(at[c])
	}
}
