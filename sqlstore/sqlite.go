package sqlstore

import (
	"context"
	"time"
)

// sqlite is the backend for a SQLite file, which has one writer at a time.
type sqlite struct{ *Store }

// read runs f on a connection. A brief read is not interrupted.
func (s sqlite) read(ctx context.Context, how span, f func(context.Context, execer) error) error {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	inner := ctx
	if how == brief {
		inner = context.WithoutCancel(ctx)
	}
	return wait.over(retry(wait, func() error {
		se, err := s.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		return f(inner, se)
	}))
}

// write lets one call write at a time, whatever its key.
func (s sqlite) write(ctx context.Context, _ recordID, notAfter time.Time, f func(context.Context, execer) (bool, error)) error {
	return s.Store.write(ctx, notAfter, f)
}

// alone holds for any writing transaction.
func (s sqlite) alone(_ context.Context, _ execer, f func() error) error { return f() }

func (s sqlite) skew() string {
	return "this machine's clock: the clock was set back, or machines share the file, which SQLite does not allow over a network"
}
