package sqltest

import (
	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

// Many tests break connections on purpose, so the driver's log is noise.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) }
