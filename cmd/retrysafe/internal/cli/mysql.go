package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// mysqlAddress is the address of a server and a database, and the maximum number of connections.
type mysqlAddress struct {
	dsn     string // in the driver's format, with the password
	display string
	conns   int
}

// mysqlForm describes the format of an address.
const mysqlForm = "write it like mysql://user:password@host:3306/database?tls=true, with special characters of the password as %40"

// parseMySQL parses an address. Its errors do not quote the address, which may contain a password.
func parseMySQL(name string) (*mysqlAddress, error) {
	u, err := url.Parse(name)
	if err != nil || u.Hostname() == "" || u.Fragment != "" {
		return nil, errors.New("store mysql: the address cannot be read; " + mysqlForm)
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, errors.New("store mysql: the address names no database; " + mysqlForm)
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	user := u.User.Username()
	if strings.Contains(user, ":") {
		return nil, errors.New("store mysql: the name of the user has a colon, which the driver does not allow; use another user")
	}
	a := &mysqlAddress{display: "mysql " + u.Host + u.Path, conns: defaultConns}
	// The driver looks for the last slash, the last @ before it, and the first colon, so a password
	// may contain all of them. interpolateParams sends a statement in one message.
	password, _ := u.User.Password()
	a.dsn = user + ":" + password + "@tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/" + url.PathEscape(database) + "?interpolateParams=true"
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("store mysql: the parameters cannot be read; " + mysqlForm)
	}
	for parameter, values := range q {
		value := values[len(values)-1]
		switch parameter {
		case "tls":
			switch value {
			case "true", "false", "preferred", "skip-verify":
				a.dsn += "&tls=" + value
			default:
				return nil, errors.New("store mysql: tls is true (the server's certificate is verified), skip-verify, preferred or false")
			}
		case "pool_max_conns":
			if a.conns, err = strconv.Atoi(value); err != nil || a.conns < 1 {
				return nil, errors.New("store mysql: pool_max_conns is a number of connections, 1 or more")
			}
		default:
			return nil, errors.New("store mysql: a parameter of the address is not known; there are tls and pool_max_conns")
		}
	}
	return a, nil
}

// openMySQL connects to a server. If the store is to serve, it creates the tables.
func openMySQL(ctx context.Context, a *mysqlAddress, log *slog.Logger, how storeAccess, with storeSettings) (*sqlstore.Store, func() error, error) {
	db, err := openSQL("mysql", a.dsn, a.conns)
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", a.display, err)
	}
	s, err := sqlstore.New(db, sqlstore.MySQL, &sqlstore.Options{Logger: log, NoGroupCommit: with.naive})
	if err == nil && how == toServe {
		err = s.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("store %s: %w", a.display, err)
	}
	return s, db.Close, nil
}
