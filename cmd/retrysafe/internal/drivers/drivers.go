// Package drivers is everything that the command links to reach servers and to read formats of
// others, so that the size and the licences of it can be reviewed in one place.
package drivers

import (
	"context"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/check/input/openapi"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// All returns all drivers.
func All() cli.Drivers {
	// MySQL's driver logs what the error of the call says too.
	_ = mysql.SetLogger(&mysql.NopLogger{})
	return cli.Drivers{
		Redis:              connectRedis,
		ListenPostgreSQL:   listenPostgreSQL,
		OpenTelemetry:      openTelemetry,
		OpenAPI:            openapi.Read,
		DeadLettersOfAMQP:  amqpDeadLetters,
		DeadLettersOfNATS:  natsDeadLetters,
		DeadLettersOfRedis: redisDeadLetters,
	}
}

func listenPostgreSQL(url string) func(ctx context.Context, channel string, on func(message string)) error {
	return pgxidem.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })
}
