package guard

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Version guards an UPDATE by a version that the client has seen and sends with its request
// (If-Match; package etag reads it):
//
//	UPDATE account SET …, version = version + 1, last_key = digest WHERE id = ? AND version = ? AND last_key is not this digest
//
// It costs one statement, and a second one if the first changed nothing, to find out why. A version
// that the server reads within the request only orders concurrent writers: a retry would read the
// new version and write again.
//
// The row stores the key of its last writer, which tells a duplicate from a lost race. A duplicate
// returns [AlreadyApplied], whatever version it names. After another request has written, a late
// retry that names its first version gets [ErrStale], although it was applied at the time. One that
// names the newer version writes again, since the row does not have its key any more. Inside
// retrysafe.DoTx both get the first answer. A key is for one change: a request with the same key
// and another Set counts as a duplicate.
//
// Table may be schema.table. ID is a column with a unique index of its own, or the primary key.
// Column is the version: an integer for [Version.Update] or a time for [Version.UpdateAt], and not
// NULL. LastKey is a column for digests (see [Digest]). Without one, duplicates and lost races
// cannot be told apart, and both return ErrStale.
//
// A Version is safe for concurrent use. It is meant to be a package variable, since it checks the
// table's indexes only once, and must not be copied after its first use.
type Version struct {
	Table, ID, Column, LastKey string

	numbers, moments planCache
}

// Update changes the row if it has the given version, and increments the version. set has at least
// one column, and none of ID, Column and LastKey.
//
// Errors: [ErrStale], [ErrMissing], [ErrMisuse], [ErrLocked], and wrapped errors of the database.
// After each of them, roll back.
func (v *Version) Update(ctx context.Context, tx dbtx.Tx, id any, version int64, by retrysafe.Key, set Set) (Outcome, error) {
	p, err := v.numbers.planFor(ctx, tx, func() tableSpec { return v.tableSpec(false) })
	if err != nil {
		return 0, err
	}
	return v.update(ctx, tx, p, id, version, by, set, func(s *statement) { s.name(v.Column).add(" = ").name(v.Column).add(" + 1") })
}

// UpdateAt is like Update, for a version that is a time with microseconds, as read from the row.
// The new version is this machine's time, or one microsecond after the old version if that is
// later, so it always grows. On SQLite it is written as the driver writes a time in UTC; write the
// first version the same way.
func (v *Version) UpdateAt(ctx context.Context, tx dbtx.Tx, id any, version time.Time, by retrysafe.Key, set Set) (Outcome, error) {
	if version.IsZero() {
		return 0, misuseError("the version is the zero time; give the one that the client has seen")
	}
	p, err := v.moments.planFor(ctx, tx, func() tableSpec { return v.tableSpec(true) })
	if err != nil {
		return 0, err
	}
	seen := version.UTC().Truncate(time.Microsecond)
	next := time.Now().UTC().Truncate(time.Microsecond)
	if !next.After(seen) {
		next = seen.Add(time.Microsecond)
	}
	out, err := v.update(ctx, tx, p, id, seen, by, set, func(s *statement) { s.name(v.Column).add(" = ").value(next) })
	if errors.Is(err, ErrStale) && p.d == dbtx.SQLite && v.hasTime(ctx, tx, p, id, version) {
		return 0, misuseError("%s: the column %s has the time that was asked for, in another form than this driver writes in UTC, or to the nanosecond; write all of them as time.Time in UTC, truncated to microseconds", p.tableText, v.Column)
	}
	return out, err
}

func (v *Version) tableSpec(moment bool) tableSpec {
	return tableSpec{guard: "Version", table: v.Table, unique: []string{v.ID}, column: v.Column, key: v.LastKey, moment: moment}
}

func (v *Version) update(ctx context.Context, tx dbtx.Tx, p *plan, id, version any, by retrysafe.Key, set Set, next func(*statement)) (Outcome, error) {
	if v.Column == "" {
		return 0, misuseError("Version on table %s names no column of the version; set Column", v.Table)
	}
	if err := checkID(id); err != nil {
		return 0, err
	}
	columns, err := set.sortedColumns("the Set", true, v.ID, v.Column, v.LastKey)
	if err != nil {
		return 0, err
	}
	if len(columns) == 0 {
		return 0, misuseError("the Set is empty; name what the request changes")
	}
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ")
	for _, c := range columns {
		s.assign(c, set[c], "").add(", ")
	}
	next(s)
	digest := ""
	if v.LastKey != "" {
		if digest, err = digestFor(by, "version "+strings.ToLower(v.Column)+"\n"); err != nil {
			return 0, err
		}
		s.add(", ").name(v.LastKey).add(" = ").value(digest)
	}
	s.add(" WHERE ").name(v.ID).add(" = ").value(id).add(" AND ").name(v.Column).add(" = ").value(version)
	if digest != "" {
		// A request that has read the new version and sends the same key again is also a duplicate.
		s.add(" AND (").name(v.LastKey).add(" IS NULL OR ").name(v.LastKey).add(" <> ").value(digest).add(")")
	}
	switch done, err := p.runOnRow(ctx, tx, s); {
	case err != nil:
		return 0, err
	case done:
		return Applied, nil
	}
	return v.explainNoChange(ctx, tx, p, id, digest)
}

// explainNoChange finds out why nothing was changed.
func (v *Version) explainNoChange(ctx context.Context, tx dbtx.Tx, p *plan, id any, digest string) (Outcome, error) {
	const own, none = 1, 2
	s := newStatement(p.d).add("SELECT CASE")
	if digest != "" {
		s.add(" WHEN ").name(v.LastKey).add(" = ").value(digest).add(" THEN 1")
	}
	s.add(" WHEN ").name(v.Column).add(" IS NULL THEN 2 ELSE 0 END FROM ", p.quoted, " WHERE ").name(v.ID).add(" = ").value(id).readCurrent()
	var found int64
	switch err := tx.QueryRow(ctx, string(s.text), s.args, &found); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, p.missingError()
	case err != nil:
		return 0, explainError(p.tableText, err)
	case found == own:
		return AlreadyApplied, nil
	case found == none:
		return 0, misuseError("%s: the column %s of this row is NULL, which no version is equal to; give every row a first version, and make the column NOT NULL", p.tableText, v.Column)
	}
	return 0, newFailure(ErrStale, nil, "%s: the row has not the version that the request names; read it again, and let the client decide on what is there now", p.tableText)
}

// hasTime reports whether the row has the time, in any form that the driver can read.
func (v *Version) hasTime(ctx context.Context, tx dbtx.Tx, p *plan, id any, version time.Time) bool {
	s := newStatement(p.d).add("SELECT ").name(v.Column).add(" FROM ", p.quoted, " WHERE ").name(v.ID).add(" = ").value(id)
	var found sql.Null[time.Time]
	err := tx.QueryRow(ctx, string(s.text), s.args, &found)
	return err == nil && found.Valid && (found.V.Equal(version) || found.V.Truncate(time.Microsecond).Equal(version.Truncate(time.Microsecond)))
}

func (p *plan) missingError() error {
	return newFailure(ErrMissing, nil, "%s has no row with this id; look whether the request names the right one, or whether the row was removed", p.tableText)
}
