package sqltest

import (
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// MySQLWords is a driver for MariaDB that refuses the statements that MySQL does not have, with
// MySQL's error.
const MySQLWords = "mysql-words"

func init() { sql.Register(MySQLWords, wordsDriver{}) }

type wordsDriver struct{}

func (wordsDriver) Open(dsn string) (driver.Conn, error) {
	inner, err := mysql.MySQLDriver{}.Open(dsn)
	if err != nil {
		return nil, err
	}
	refuse := Fault(func(step string, run func() error) error {
		if strings.HasPrefix(step, "SET STATEMENT") {
			return &mysql.MySQLError{Number: 1064, Message: "You have an error in your SQL syntax"}
		}
		return run()
	})
	hook := new(atomic.Pointer[Fault])
	hook.Store(&refuse)
	return &faultyConn{inner, &faultyDriver{hook: hook}}, nil
}
