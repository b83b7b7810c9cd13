package integration_test

// The drivers that the suites run on, in one place.
import (
	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// Connections that break are what many tests are about.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) }
