package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// postgresAddress is the address of a server and a database, and the maximum number of connections.
type postgresAddress struct {
	url     string // in the driver's format, with the password
	display string
	conns   int
}

// defaultConns is well below a server's default limit (100), so that several gateways fit.
const defaultConns = 20

// parsePostgres parses an address. Its errors do not quote the address, which may contain a
// password.
func parsePostgres(name string) (*postgresAddress, error) {
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return nil, errors.New("store postgres: the address cannot be read; write it like postgres://user:password@host:5432/database?sslmode=verify-full, " +
			"with special characters of the password as %40")
	}
	a := &postgresAddress{display: "postgres " + u.Host + u.Path, conns: defaultConns}
	q := u.Query()
	if n := q.Get("pool_max_conns"); n != "" {
		if a.conns, err = strconv.Atoi(n); err != nil || a.conns < 1 {
			return nil, errors.New("store postgres: pool_max_conns is a number of connections, 1 or more")
		}
		q.Del("pool_max_conns")
	}
	u.RawQuery = q.Encode()
	a.url = u.String()
	return a, nil
}

// openPostgres connects to a server. If the store is to serve, it creates the tables.
func openPostgres(ctx context.Context, a *postgresAddress, log *slog.Logger, how storeAccess, with storeSettings) (*sqlstore.Store, func() error, error) {
	db, err := openSQL("pgx", a.url, a.conns)
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", a.display, err)
	}
	o := &sqlstore.Options{Logger: log, NoGroupCommit: with.naive}
	if drivers.ListenPostgreSQL != nil {
		o.Listen = drivers.ListenPostgreSQL(a.url)
	}
	s, err := sqlstore.New(db, sqlstore.PostgreSQL, o)
	if err == nil && how == toServe {
		err = s.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("store %s: %w", a.display, err)
	}
	return s, db.Close, nil
}
