package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// postgres is the backend for PostgreSQL.
type postgres struct{ server }

func newPostgres(db *database) postgres {
	return postgres{server{
		db: db, turns: newTurns(), manner: postgresManner{db.table}, looking: arrays{db, false}, locking: arrays{db, true},
	}}
}

// postgresManner has the statements for PostgreSQL. No setting outlives a transaction.
type postgresManner struct{ table string }

func (postgresManner) reading(ctx context.Context, conn *sql.Conn, f func(context.Context, sqlkit.Execer) error) error {
	return f(ctx, conn)
}

func (postgresManner) begin(call context.Context, conn *sql.Conn, wait patience) error {
	lock := wait.left()
	statement := lock + slack.Milliseconds()
	if wait.lock > 0 {
		// many calls together: if they are slow, they should not be made again one by one
		statement = (wait.limit + slack).Milliseconds()
	}
	_, err := conn.ExecContext(call, beginning(lock, statement, statement+4*slack.Milliseconds()))
	return err
}

func (postgresManner) within(call context.Context, _ patience) context.Context { return call }

func (postgresManner) commit(call context.Context, conn *sql.Conn, notAfter time.Time) error {
	_, err := conn.ExecContext(call, committing(latest(notAfter)))
	if dberr.SQLState(err) == stateDivision {
		return storeapi.ErrTooLate
	}
	return err
}

func (postgresManner) rollback(call context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(call, "ROLLBACK")
	return err
}

func (postgresManner) fate(err error) fate {
	switch state := dberr.SQLState(err); {
	case state == stateSerialization, state == stateDeadlock:
		return blocked
	case state == stateLockTimeout, state == stateCanceled:
		return timedOut
	case state == "", strings.HasPrefix(state, "08"), strings.HasPrefix(state, "57P0"), state == "25P03":
		return onlyLost
	}
	return final
}

func (p postgresManner) advice(err error) (text string, noTable bool) {
	state := dberr.SQLState(err)
	if state == stateNoTable && strings.Contains(err.Error(), p.table) {
		return "", true
	}
	if state == stateNotSupported && strings.Contains(err.Error(), "recovery") {
		state = stateReadOnly // a writing transaction on a replica
	}
	if state == stateProtocol && !strings.Contains(err.Error(), "prepared statement") {
		return "", false // PgBouncer has this code also for a client that has waited too long
	}
	return postgresAdvice[state], false
}
