package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestForever: A sets 20, B sets 30, and then comes a late duplicate of A. With a short retention
// it undoes what B did. If the answer is kept for ever, the duplicate is recognized. A sweep makes
// no difference.
func TestForever(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s, _ *shop) {
		t.Helper()
		execSQL(t, s.db, "CREATE TABLE price (id INT PRIMARY KEY, amount INT NOT NULL)")
		execSQL(t, s.db, "INSERT INTO price VALUES (1, 10)")
		set := func(key string, amount int, keep time.Duration) (replayed bool) {
			t.Helper()
			res, err := retrysafe.DoTx(t.Context(), s.engine, s.store, orderKey(key), func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE price SET amount = %d WHERE id = 1", amount))
				return amount, err
			}, retrysafe.WithPolicy(retrysafe.Policy{Retention: keep}))
			assert.NoError(t, err, "set %s", key)
			return res.Replayed
		}
		for name, c := range map[string]struct {
			keep time.Duration
			want int
		}{"short": {time.Minute, 20}, "for ever": {retrysafe.Forever, 30}} {
			set(name+" A", 20, c.keep)
			set(name+" B", 30, c.keep)
			// Time passes.
			execSQL(t, s.db, "UPDATE retrysafe_records SET expires = 1 WHERE expires <> 0")
			_, err := s.store.Sweep(t.Context(), 1000)
			assert.NoError(t, err, "Sweep")
			assert.Equal(t, set(name+" A", 20, c.keep), c.want == 30, "whether the late repeat is known as one, kept %s", name)
			var amount int
			assert.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT amount FROM price").Scan(&amount), "read")
			assert.Equal(t, amount, c.want, "the price, kept %s", name)
		}
	})
}
