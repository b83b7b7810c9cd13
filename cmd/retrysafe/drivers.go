package main

// Every driver that the command links stands in this file, so that its weight
// and its licences can be read in one place.
import (
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)
