package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// settings warns about settings that can lose answered calls.
func (p postgres) settings(ctx context.Context) error { return p.read(ctx, brief, p.db.warn) }

// keeps also checks for replicas that may take over without the last commits. A user without rights
// can see that there are replicas, but not which.
func (p postgres) keeps(ctx context.Context) error {
	return p.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		if err := p.db.refuseLosses(ctx, db); err != nil {
			return err
		}
		var commit, standbys string
		var replicas int
		err := db.QueryRowContext(ctx, `SELECT current_setting('synchronous_commit'), `+
			`current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`).
			Scan(&commit, &standbys, &replicas)
		if err != nil {
			return err
		}
		if replicas > 0 && (standbys == "" || commit == "local") {
			return stateError("sqlstore: commits do not wait for replicas, and the server has some: " +
				"a failover loses the last ones; set synchronous_standby_names, and synchronous_commit = on")
		}
		return nil
	})
}

// migrate lets one process at a time migrate, and checks the rights on existing tables, which may
// belong to another user.
func (p postgres) migrate(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := patienceOf(ctx, limit)
	defer cancel()
	return p.writeWithin(wait, recordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return true, p.alone(ctx, w, f)
	})
}

func (p postgres) alone(ctx context.Context, w sqlkit.Execer, f func(context.Context, sqlkit.Execer) error) error {
	if p.db.schema != "" { // CREATE INDEX names no schema
		if _, err := w.ExecContext(ctx, `SET LOCAL search_path = "`+p.db.schema+`"`); err != nil {
			return err
		}
	}
	if _, err := sqlkit.LockMigration(ctx, w, PostgreSQL, p.db.table, 0); err != nil {
		return err
	}
	for _, suffix := range []string{"", "_limits", "_meta"} {
		var there, may bool
		name := `"` + p.db.table + suffix + `"`
		// Each right is checked separately: given a list, has_table_privilege is satisfied by one
		// of them.
		err := w.QueryRowContext(ctx, `SELECT t IS NOT NULL, t IS NULL OR (has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'UPDATE') AND
			(has_table_privilege(t, 'INSERT') AND has_table_privilege(t, 'DELETE') OR $2)) FROM (SELECT to_regclass($1)::oid AS t) s`,
			name, suffix == "_meta").Scan(&there, &may)
		if err != nil {
			return err
		}
		if there && !may {
			return stateError(fmt.Sprintf("sqlstore: the table %s is there and this user may not use it, nothing was changed; as its owner: "+
				"GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO the user", p.db.table+suffix, strings.Join([]string{p.db.table, p.db.table + "_limits", p.db.table + "_meta"}, ", ")))
		}
	}
	return f(ctx, w)
}
