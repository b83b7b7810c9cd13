package pgxidem

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listen makes what sqlstore.Options.Listen is, of a function that opens a connection: one, as long
// as somebody waits.
//
//	o := &sqlstore.Options{Listen: pgxidem.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })}
//
// Through PgBouncer in transaction mode nothing is heard: let connect go to the server itself.
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
