package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestForever: A sets 20, B sets 30, and then comes a late duplicate of A. With a short retention
// it undoes what B did. If the answer is kept for ever, the duplicate is recognized. A sweep makes
// no difference.
func TestForever(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, s, _ *shops.Shop) {
		t.Helper()
		sqltest.Exec(t, s.DB, "CREATE TABLE price (id INT PRIMARY KEY, amount INT NOT NULL)")
		sqltest.Exec(t, s.DB, "INSERT INTO price VALUES (1, 10)")
		set := func(key string, amount int, keep time.Duration) (replayed bool) {
			t.Helper()
			res, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(key), func(ctx context.Context, tx *sql.Tx) (int, error) {
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
			sqltest.Exec(t, s.DB, "UPDATE retrysafe_records SET expires = 1 WHERE expires <> 0")
			_, err := s.Store.Sweep(t.Context(), 1000)
			assert.NoError(t, err, "Sweep")
			assert.Equal(t, set(name+" A", 20, c.keep), c.want == 30, "whether the late repeat is known as one, kept %s", name)
			var amount int
			assert.NoError(t, s.DB.QueryRowContext(t.Context(), "SELECT amount FROM price").Scan(&amount), "read")
			assert.Equal(t, amount, c.want, "the price, kept %s", name)
		}
	})
}
