package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/check/input"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Drivers are the parts of the command that need large libraries of others, which are most of what
// there is to compile. A program may leave them out, and then refuses what needs them. Drivers of
// databases are registered with database/sql.
type Drivers struct {
	// Redis connects to servers. If alone is true, each call has a connection of its own.
	Redis func(a *redisclient.Address, alone bool) (RedisClient, error)
	// ListenPostgreSQL returns the Listen of [sqlstore.Options] for the database of a URL.
	ListenPostgreSQL func(url string) func(ctx context.Context, channel string, on func(message string)) error
	// OpenTelemetry exports as the environment says. It returns nil if the environment asks for
	// nothing.
	OpenTelemetry func(ctx context.Context, log *slog.Logger) (Telemetry, error)
	// OpenAPI reads the requests of a document.
	OpenAPI func(document []byte, server string) ([]input.Named, error)

	// These open the dead-letter queue of a queue. Their errors do not show the URL, which may have
	// a password.
	DeadLettersOfAMQP  func(ctx context.Context, url, queue string, log *slog.Logger) (DeadLetters, error)
	DeadLettersOfNATS  func(ctx context.Context, url, stream, consumer string, log *slog.Logger) (DeadLetters, error)
	DeadLettersOfRedis func(ctx context.Context, a *redisclient.Address, stream, group string, log *slog.Logger) (DeadLetters, error)
}

// RedisClient is a client of Redis with the optional interfaces of package redisclient.
type RedisClient interface {
	redisclient.Client
	io.Closer
}

// DeadLetters is a dead-letter queue with its connection.
type DeadLetters struct {
	mqidem.DeadLetters
	Close func()
}

// Telemetry exports traces, and metrics if it says so.
type Telemetry interface {
	Trace() *retrysafe.Trace
	ExportsMetrics() bool
	WatchInDoubt(s storeapi.Store) (stop func() error, err error)
	Continue(ctx context.Context, h http.Header) context.Context
	Propagate(ctx context.Context, h http.Header)
	Shutdown(ctx context.Context) error
}

// drivers are those of this program. Main sets them before it runs a command.
var drivers Drivers

// notLinked is the error for a part that this program was built without.
func notLinked(what string) error {
	return &usageError{fmt.Errorf("this program was built without %s; use the command retrysafe: go install %s@%s",
		what, "github.com/retrysafe/retrysafe/cmd/retrysafe", installVersion(buildVersion()))}
}

// connectRedis connects to servers.
func connectRedis(a *redisclient.Address, alone bool) (RedisClient, error) {
	if drivers.Redis == nil {
		return nil, notLinked("a client of Redis")
	}
	return drivers.Redis(a, alone)
}

// openSQL opens a database. Its error does not quote the address, which may have a password.
func openSQL(driver, dsn string, most int) (*sql.DB, error) {
	if !slices.Contains(sql.Drivers(), driver) {
		return nil, notLinked("the driver " + driver)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, errors.New("the address cannot be used; look at its parameters")
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}
