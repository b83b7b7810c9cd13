package main

// Every driver that the command links stands in this file, so that its weight
// and its licences can be read in one place.
import (
	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// What becomes of a connection is in the error of the call that has used it.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) }
