package guard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Machine guards the transitions of a row from state to state:
//
//	UPDATE orders SET status = to, … WHERE id = ? AND status = from
//
// It costs one statement, and a second one if the first changed nothing, to find out why. In a
// machine without cycles, a row that can only have reached its state by this move has made it: the
// call returns [AlreadyApplied]. If there is another path, as to "cancelled" from several states,
// it returns [ErrStale]. Another request may have made the move: without a key column,
// AlreadyApplied says that the move was made, but not by which request. So the Set of this request
// may not be in the row.
//
// With a key column ([MachineOptions].LastKey) the row stores the key of its last move. Then the
// machine may have cycles, and [Machine.MoveBy] returns AlreadyApplied only for this request's own
// move between these two states. It knows only the last move. If others have moved the row on and
// it is back in `from`, a late retry moves it again. Inside retrysafe.DoTx it does not.
//
// A Machine is safe for concurrent use.
type Machine[S comparable] struct {
	table, id, column, key string

	moves moveGraph[S]
	plans planCache
}

// MachineOptions configure a [Machine]. Nil is valid.
type MachineOptions struct {
	// LastKey names the column that stores the digest of the key of the last move (see [Digest]);
	// default: none.
	LastKey string
}

// NewMachine declares which states each state leads to. table may be schema.table, id is a column
// with a unique index, and column has the state and is not NULL. S is an integer or string type, or
// one that the driver can read and write.
//
// NewMachine refuses a machine with a cycle unless it has a LastKey: a late retry would find the
// row in `from` again.
func NewMachine[S comparable](table, id, column string, moves map[S][]S, options *MachineOptions) (*Machine[S], error) {
	var o MachineOptions
	if options != nil {
		o = *options
	}
	g, err := newGraph(moves)
	if err != nil {
		return nil, err
	}
	m := &Machine[S]{table: table, id: id, column: column, key: o.LastKey, moves: g}
	s := m.tableSpec()
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	if column == "" {
		return nil, misuseError("the machine on table %s names no column of the state", table)
	}
	if at, found := g.findCycle(); found && o.LastKey == "" {
		return nil, misuseError("the machine on table %s can enter the state %v again, so that a late retry would find the row as it was before and move it once more; "+
			"leave the move out, or add a column for the key of the last move: MachineOptions.LastKey", table, at)
	}
	return m, nil
}

func (m *Machine[S]) tableSpec() tableSpec {
	return tableSpec{guard: "Machine", table: m.table, unique: []string{m.id}, column: m.column, key: m.key}
}

// Move moves the row from one state to another, and also writes the columns in also, which may be
// nil. It is for machines without a key column.
//
// Errors: [ErrIllegal] if the move is not declared or the row is in a state that does not lead to
// it, [ErrStale] if the row may have reached its state by another path, [ErrMissing], [ErrMisuse],
// [ErrLocked], and wrapped errors of the database. After each of them, roll back.
func (m *Machine[S]) Move(ctx context.Context, tx dbtx.Tx, id any, from, to S, also Set) (Outcome, error) {
	if m != nil && m.key != "" {
		return 0, misuseError("the machine on table %s keeps keys in %s; call MoveBy with the key of the request", m.table, m.key)
	}
	return m.move(ctx, tx, id, "", from, to, also)
}

// MoveBy is like Move, for machines with a key column; by is the key of the request. It returns
// [ErrStale] if another request has moved the row to `to`.
func (m *Machine[S]) MoveBy(ctx context.Context, tx dbtx.Tx, id any, by retrysafe.Key, from, to S, also Set) (Outcome, error) {
	if m != nil && m.key == "" {
		return 0, misuseError("the machine on table %s has no column for keys; declare it with MachineOptions.LastKey, or call Move", m.table)
	}
	digest, err := digestFor(by, fmt.Sprintf("move %s %q %q\n", strings.ToLower(m.column), fmt.Sprint(driverValue(from)), fmt.Sprint(driverValue(to))))
	if err != nil {
		return 0, err
	}
	return m.move(ctx, tx, id, digest, from, to, also)
}

func (m *Machine[S]) move(ctx context.Context, tx dbtx.Tx, id any, digest string, from, to S, also Set) (Outcome, error) {
	if m == nil {
		return 0, misuseError("the machine is nil; look at the error of NewMachine")
	}
	p, err := m.plans.planFor(ctx, tx, m.tableSpec)
	if err != nil {
		return 0, err
	}
	if err := checkID(id); err != nil {
		return 0, err
	}
	columns, err := also.sortedColumns("the Set", true, m.id, m.column, m.key)
	if err != nil {
		return 0, err
	}
	if !slices.Contains(m.moves[from], to) {
		return 0, newFailure(ErrIllegal, nil, "%s: the machine does not declare %v to %v; declare it, or refuse the request", p.tableText, from, to)
	}
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ").name(m.column).add(" = ").value(driverValue(to))
	for _, c := range columns {
		s.add(", ").assign(c, also[c], "")
	}
	if digest != "" {
		s.add(", ").name(m.key).add(" = ").value(digest)
	}
	s.add(" WHERE ").name(m.id).add(" = ").value(id).add(" AND ").name(m.column).add(" = ").value(driverValue(from))
	if digest != "" {
		s.add(" AND (").name(m.key).add(" IS NULL OR ").name(m.key).add(" <> ").value(digest).add(")")
	}
	switch done, err := p.runOnRow(ctx, tx, s); {
	case err != nil:
		return 0, err
	case done:
		return Applied, nil
	}
	return m.explainNoChange(ctx, tx, p, id, digest, from, to)
}

// explainNoChange finds out why nothing was changed.
func (m *Machine[S]) explainNoChange(ctx context.Context, tx dbtx.Tx, p *plan, id any, digest string, from, to S) (Outcome, error) {
	s := newStatement(p.d).add("SELECT ").name(m.column).add(", CASE WHEN ")
	if digest == "" {
		s.add("1 = 0")
	} else {
		s.name(m.key).add(" = ").value(digest)
	}
	s.add(" THEN 1 ELSE 0 END FROM ", p.quoted, " WHERE ").name(m.id).add(" = ").value(id).readCurrent()
	var found sql.Null[S]
	var own int64
	switch err := tx.QueryRow(ctx, string(s.text), s.args, &found, &own); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, p.missingError()
	case err != nil:
		return 0, explainError(p.tableText, err)
	case !found.Valid:
		return 0, misuseError("%s: the column %s of this row is NULL, which is no state; give every row a first one, and make the column NOT NULL", p.tableText, m.column)
	case own == 1:
		return AlreadyApplied, nil
	}
	now := m.moves.declaredState(found.V)
	switch {
	case digest == "" && m.moves.certainlyMoved(from, to, now):
		return AlreadyApplied, nil
	case digest == "" && now == to:
		return 0, newFailure(ErrStale, nil, "%s: the row is in %v, and may have come there in another way than from %v; read it again, or give the machine a column for the key of the last move: "+
			"MachineOptions.LastKey", p.tableText, now, from)
	case digest != "" && (now == to || now == from):
		return 0, newFailure(ErrStale, nil, "%s: another request has moved the row to %v; read it again, and let the client decide on what is there now", p.tableText, now)
	}
	return 0, newFailure(ErrIllegal, nil, "%s: the row is in %v, and the move from %v to %v is not open to it; refuse the request, or read the row and decide again", p.tableText, now, from, to)
}

// driverValue converts a state to a value that drivers accept, whatever its named type.
func driverValue[S comparable](s S) any {
	if _, ok := any(s).(driver.Valuer); ok {
		return s
	}
	switch v := reflect.ValueOf(s); {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.String:
		return v.String()
	}
	return s
}
