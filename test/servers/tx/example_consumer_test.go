package tx_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// runStock is the example in README: the effect of a message and its record commit together.
func runStock(ctx context.Context, engine *retrysafe.Engine, store *sqlstore.Store, source mqidem.Source) error {
	stock := mqidem.OnceTx(engine, store, "stock", func(ctx context.Context, tx *sql.Tx, m *mqidem.Message) error {
		var order struct{ SKU string }
		if err := json.Unmarshal(m.Body, &order); err != nil {
			return mqidem.Poison(err)
		}
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE sku = $1", order.SKU)
		return err
	})
	return mqidem.Consume(ctx, source, stock, &mqidem.Options{MaxAttempts: 5, Backoff: mqidem.Fixed(3 * time.Second)})
}

// The compiler checks the example's shape, and TestOnceTxTries its behaviour.
var _ = runStock
