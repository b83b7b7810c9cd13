package main

// This file imports every driver that the command links, so that their size and licences can be
// reviewed in one place.
import (
	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// The driver's log is not needed: the error of the call says what happened to its connection.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) }
