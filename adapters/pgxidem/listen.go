package pgxidem

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listen returns a function for sqlstore.Options.Listen. It opens one connection with connect, and
// keeps it while any caller waits.
//
//	o := &sqlstore.Options{Listen: pgxidem.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })}
//
// PgBouncer in transaction mode delivers no notifications: let connect connect directly to the
// server.
func Listen(connect func(context.Context) (*pgx.Conn, error)) func(ctx context.Context, channel string, on func(message string)) error {
	return func(ctx context.Context, channel string, on func(string)) error {
		conn, err := connect(ctx)
		if err != nil {
			return err
		}
		defer func() {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = conn.Close(end)
		}()
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		on("")
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			on(n.Payload)
		}
	}
}
