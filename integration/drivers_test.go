package integration_test

// The drivers that the suites run on, in one place.
import (
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)
