package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Marked marks a context as that of a transaction on a database.
var Marked = markContext

// InTransaction reports whether a context has the mark.
func InTransaction(ctx context.Context, db *sql.DB) bool {
	return errors.Is(checkContext(ctx, db), storeapi.ErrInTransaction)
}
