package sqlstore

import (
	"context"
	"fmt"
	"strings"
)

// settings warns about settings that can lose answered calls.
func (p postgres) settings(ctx context.Context) error {
	return p.read(ctx, brief, func(ctx context.Context, db execer) error {
		found, err := p.losses(ctx, db)
		for _, loss := range found {
			p.db.logger.Warn("sqlstore: "+loss, "table", p.db.table)
		}
		return err
	})
}

// losses returns the settings by which a crash can lose committed transactions.
func (p postgres) losses(ctx context.Context, db execer) (found []string, err error) {
	var fsync, commit, pages string
	err = db.QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit'), `+
		`current_setting('full_page_writes')`).Scan(&fsync, &commit, &pages)
	if err != nil {
		return nil, err
	}
	add := func(setting, text string) { found = append(found, setting+" is off: "+text) }
	if fsync == "off" {
		add("fsync", "a crash of the machine can damage the database, and what was answered may "+
			"run again; set fsync = on")
	}
	if commit == "off" {
		add("synchronous_commit", "a crash of the server loses the last commits, and what they "+
			"answered may run again; set synchronous_commit = on for this user or database")
	}
	if pages == "off" {
		add("full_page_writes", "a crash of the machine can damage the database, unless its file "+
			"system writes pages whole; set full_page_writes = on")
	}
	return found, nil
}

// keeps also checks for replicas that may take over without the last commits. A user without rights
// can see that there are replicas, but not which.
func (p postgres) keeps(ctx context.Context) error {
	return p.read(ctx, brief, func(ctx context.Context, db execer) error {
		found, err := p.losses(ctx, db)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return stateError("sqlstore: " + found[0])
		}
		var commit, standbys string
		var replicas int
		err = db.QueryRowContext(ctx, `SELECT current_setting('synchronous_commit'), `+
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

// alone lets one process at a time migrate, and checks the rights on existing tables, which may
// belong to another user.
func (p postgres) alone(ctx context.Context, w execer, f func() error) error {
	if _, err := w.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "retrysafe migrates "+p.db.table); err != nil {
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
	return f()
}
