package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// storeAccess is what opening a store may change.
type storeAccess uint8

const (
	toServe   storeAccess = iota + 1 // create what is missing
	toInspect                        // change nothing except records
)

// storeSettings are the settings of a store in a configuration, except its name.
type storeSettings struct {
	acks          int // of Redis replicas
	allowEviction bool
	copies        int64 // memory for copies of Redis records; zero: no copies
	naive         bool  // no batches: each call is sent and committed alone
}

// storeName is a parsed name of a store: the path of a SQLite file, the address of Redis,
// PostgreSQL or MySQL servers, or none of them for memory.
type storeName struct {
	path     string
	redis    *redisclient.Address
	postgres *postgresAddress
	mysql    *mysqlAddress
}

func (n storeName) inMemory() bool { return !n.hasTables() && n.redis == nil }

// hasTables reports whether it is a SQL store.
func (n storeName) hasTables() bool { return n.path != "" || n.postgres != nil || n.mysql != nil }

// openDatabase opens the database of a name that has tables, with at most so many connections. An
// error does not quote the address.
func (n storeName) openDatabase(how storeAccess, most int) (*sql.DB, dbtx.Dialect, error) {
	if n.path != "" && how == toInspect {
		if _, err := os.Stat(n.path); err != nil { // looking must not create a file
			return nil, 0, err
		}
	}
	driver, dsn, dialect := "sqlite", sqliteDSN(n.path, how), dbtx.SQLite
	switch {
	case n.postgres != nil:
		driver, dsn, dialect = "pgx", n.postgres.url, dbtx.PostgreSQL
	case n.mysql != nil:
		driver, dsn, dialect = "mysql", n.mysql.dsn, dbtx.MySQL
	}
	db, err := openSQL(driver, dsn, most)
	return db, dialect, err
}

// String returns the name without user and password.
func (n storeName) String() string {
	switch {
	case n.redis != nil:
		return fmt.Sprintf("redis %s", strings.Join(n.redis.Hosts, ","))
	case n.postgres != nil:
		return n.postgres.display
	case n.mysql != nil:
		return n.mysql.display
	case n.path != "":
		return "sqlite:" + n.path
	}
	return "memory"
}

// openStore opens the store that a URL names. Call closeStore at most once.
func openStore(ctx context.Context, name string, log *slog.Logger, how storeAccess, with storeSettings) (s storeapi.Store, closeStore func() error, err error) {
	n, err := parseStore(name)
	switch {
	case err != nil:
		return nil, nil, &usageError{err}
	case n.inMemory():
		return memstore.New(nil), func() error { return nil }, nil
	case n.redis != nil:
		return openRedis(ctx, n.redis, log, with)
	case n.postgres != nil:
		return openPostgres(ctx, n.postgres, log, how, with)
	case n.mysql != nil:
		return openMySQL(ctx, n.mysql, log, how, with)
	}
	return openSQLite(ctx, n.path, log, how, with)
}

// isShared reports whether other processes can use the store too.
func (n *storeName) isShared() bool { return n.redis != nil || n.postgres != nil || n.mysql != nil }

// needsSecret returns an error if others can read the store and its digests can be guessed.
func needsSecret(store string, secret []byte) error {
	n, err := parseStore(store)
	if err != nil || !n.isShared() || len(secret) > 0 {
		return err
	}
	return &usageError{errors.New("RETRYSAFE_SECRET is not set, and others may read the store: they could guess credentials and keys from their digests; " +
		"set the same random secret on all gateways of this store, such as the output of: openssl rand -hex 32")}
}

// needsNamespace returns an error if the store needs a namespace and has none: other services may
// use the same server.
func needsNamespace(store, namespace string) error {
	n, err := parseStore(store)
	if err == nil && namespace == "" && n.isShared() {
		return errors.New("namespace is missing: other services may keep their records in the same store, and would be answered with the answers " +
			"of this one; name this service, with --namespace shop or in the file")
	}
	return err
}

// openForDemo opens a store for a demonstration, whose gateways are killed and restarted.
func openForDemo(ctx context.Context, name string, log *slog.Logger) (storeapi.Store, func() error, error) {
	if n, err := parseStore(name); err == nil && n.inMemory() {
		return nil, nil, &usageError{errors.New("store memory: forgets everything when its gateway is killed, and the demonstration kills it; use sqlite:PATH, redis://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")}
	}
	return openStore(ctx, name, log, toServe, storeSettings{})
}

// parseStore parses the name of a store.
func parseStore(name string) (n storeName, err error) {
	scheme, rest, _ := strings.Cut(name, ":")
	switch {
	case scheme == "memory" && rest == "":
		return n, nil
	case scheme == "memory":
		return n, fmt.Errorf("store %q: memory: takes nothing after the colon", name)
	case scheme == "sqlite" && rest == "":
		return n, errors.New("store sqlite: needs a path after the colon, for example sqlite:retrysafe.db")
	case scheme == "sqlite":
		n.path = rest
		return n, nil
	case scheme == "postgres", scheme == "postgresql":
		n.postgres, err = parsePostgres(name)
		return n, err
	case scheme == "mysql", scheme == "mariadb":
		n.mysql, err = parseMySQL(name)
		return n, err
	case strings.HasPrefix(scheme, "redis"):
		n.redis, err = redisclient.ParseURL(name)
		return n, err
	}
	return n, fmt.Errorf("store %q is not known; write memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, "+
		"postgres://HOST/DATABASE or mysql://HOST/DATABASE", withoutSecrets(name))
}

// withoutSecrets returns an address without what may be a password: what stands before the last @,
// and parameters.
func withoutSecrets(address string) string {
	address, parameters, _ := strings.Cut(address, "?")
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		scheme, _, ok := strings.Cut(address[:at], "://")
		if !ok {
			return "…" + address[at:]
		}
		return scheme + "://…" + address[at:]
	}
	if parameters != "" {
		return address + "?…"
	}
	return address
}

// sqliteConns are for readers: only one call writes at a time, and opening a connection takes
// longer than a call.
const sqliteConns = 8

// sqliteDSN opens a file durably: with a write-ahead log, and a sync at each commit.
func sqliteDSN(path string, how storeAccess) string {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=synchronous(FULL)"
	if how == toServe {
		dsn += "&_pragma=journal_mode(WAL)"
	}
	return dsn
}

// openSQLite opens a file.
func openSQLite(ctx context.Context, path string, log *slog.Logger, how storeAccess, with storeSettings) (storeapi.Store, func() error, error) {
	db, err := openSQL("sqlite", sqliteDSN(path, how), sqliteConns)
	if err != nil {
		return nil, nil, fmt.Errorf("store sqlite:%s: %w", path, err)
	}
	s, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Logger: log, NoGroupCommit: with.naive})
	if err == nil && how == toServe {
		err = s.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("store sqlite:%s: %w", path, err)
	}
	return s, db.Close, nil
}
