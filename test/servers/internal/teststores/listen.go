package teststores

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/adapters/pgxidem"
)

// ListenTo returns a function that receives what is published on the server.
func ListenTo(url string) func(context.Context, string, func(string)) error {
	return pgxidem.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })
}
