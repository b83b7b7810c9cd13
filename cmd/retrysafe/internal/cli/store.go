package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// access says what may be done to a store that is opened.
type access uint8

const (
	toServe access = iota + 1 // make what is missing
	asItIs                    // change nothing that is not a record
)

// openStore opens the store that a URL names. close may be called once.
func openStore(ctx context.Context, name string, log *slog.Logger, how access) (s retrysafe.Store, closeStore func() error, err error) {
	path, err := parseStore(name)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	if path == "" {
		return memstore.New(nil), func() error { return nil }, nil
	}
	return openSQLite(ctx, path, log, how)
}

// parseStore reads the name of a store: the path of a SQLite file, or nothing for memory.
func parseStore(name string) (path string, err error) {
	scheme, rest, _ := strings.Cut(name, ":")
	switch {
	case scheme == "memory" && rest == "":
		return "", nil
	case scheme == "memory":
		return "", fmt.Errorf("store %q: memory: takes nothing behind the colon", name)
	case scheme == "sqlite" && rest == "":
		return "", errors.New("store sqlite: needs a path behind the colon, for example sqlite:retrysafe.db")
	case scheme == "sqlite":
		return rest, nil
	}
	return "", fmt.Errorf("store %q is not known; this build has memory: and sqlite:PATH", name)
}

// openSQLite opens a file in the way that keeps what it was given: write-ahead log, and a sync at each commit.
func openSQLite(ctx context.Context, path string, log *slog.Logger, how access) (retrysafe.Store, func() error, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=synchronous(FULL)"
	if how == toServe {
		dsn += "&_pragma=journal_mode(WAL)"
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("store sqlite:%s: %w", path, err)
	}
	s, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Logger: log})
	if err == nil && how == toServe {
		err = s.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("store sqlite:%s: %w", path, err)
	}
	return s, db.Close, nil
}
