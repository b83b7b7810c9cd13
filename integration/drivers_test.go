package integration_test

// The drivers that the suites run on, in one place.
import (
	_ "modernc.org/sqlite"
)
