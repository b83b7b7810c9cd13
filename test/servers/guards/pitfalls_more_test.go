package guards_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// snippet: check-that-lets-nobody-in
func letIn(ctx context.Context, rdb *redis.Client, r *http.Request) (bool, error) {
	if r.Method == http.MethodPost {
		token := r.Header["Token"][0]
		if n, err := rdb.Del(ctx, "token:"+token).Result(); err != nil || n == 0 {
			return false, err // used before, or never issued
		}
	}
	return false, nil
}

// end

// TestPitfallCheckThatLetsNobodyIn: the check takes a good token away, and lets no request in.
// Without the header it ends the request.
func TestPitfallCheckThatLetsNobodyIn(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	var orders atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ok, err := letIn(r.Context(), rdb, r); err != nil || !ok {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		orders.Add(1)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	assert.NoError(t, rdb.Set(t.Context(), "token:t", "ann", time.Hour).Err(), "issue a token")
	send := func(token string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
		assert.NoError(t, err, "request")
		if token != "" {
			r.Header.Set("Token", token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	status, err := send("t")
	assert.True(t, status == 403 && err == nil, "with a good token: %d %v", status, err)
	assert.Equal(t, rdb.Exists(t.Context(), "token:t").Val(), int64(0), "tokens that are left")
	_, err = send("")
	assert.True(t, err != nil, "without the header the handler panics")
	assert.Equal(t, orders.Load(), int64(0), "orders")
}

// snippet: key-released-before-commit
func takeOrder(ctx context.Context, rdb *redis.Client, db *sql.DB, id, customer string) error {
	won, err := rdb.SetNX(ctx, "message:"+id, "1", 30*time.Second).Result()
	if err != nil || !won {
		return err // not claimed: a duplicate, which can be acked
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO purchase (request, customer) VALUES (?, ?)", id, customer); err != nil {
		rdb.Del(ctx, "message:"+id) // let the next delivery try
		return err
	}
	return tx.Commit()
}

// end

// TestPitfallKeyReleasedBeforeCommit: the COMMIT fails, the key stays, and the next delivery is
// acked as a duplicate: the message is lost.
func TestPitfallKeyReleasedBeforeCommit(t *testing.T) {
	t.Parallel()
	rdb := pitfallRedis(t)
	db, set := newAccounts(t)
	set(func(step string, run func() error) error {
		if step == "commit" {
			return driver.ErrBadConn // the connection is lost, and with it the transaction
		}
		return run()
	})
	assert.True(t, takeOrder(t.Context(), rdb, db, "1", "ann") != nil, "the first delivery fails")
	set(nil)
	assert.NoError(t, takeOrder(t.Context(), rdb, db, "1", "ann"), "the second is acked")
	assert.Equal(t, sqltest.Count(t, db, "purchase"), 0, "purchases")
}

// snippet: number-of-each-request
func order(ctx context.Context, db *sql.DB, customer string) (number string, err error) {
	number = fmt.Sprint(time.Now().UnixNano())
	_, err = db.ExecContext(ctx, "INSERT INTO numbered (number, customer) VALUES (?, ?)", number, customer)
	return number, err // a number that exists already is a duplicate
}

// end

// TestPitfallNumberOfEachRequest: the server makes the number, so no duplicate ever has the same
// one.
func TestPitfallNumberOfEachRequest(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for range 3 { // one order, sent again since its answers were lost
		_, err := order(t.Context(), db, "ann")
		assert.NoError(t, err, "order")
	}
	assert.Equal(t, sqltest.Count(t, db, "numbered"), 3, "orders")
}

// snippet: enough-balance-of-whom
func payFromBalance(ctx context.Context, db *sql.DB, amount int) error {
	_, err := db.ExecContext(ctx, "UPDATE account SET points = points - ? WHERE points - ? >= 0", amount, amount)
	return err
}

// end

// TestPitfallEnoughBalanceOfWhom: everyone who has enough pays.
func TestPitfallEnoughBalanceOfWhom(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	assert.NoError(t, payFromBalance(t.Context(), db, 60), "ann pays")
	assert.Equal(t, pointsOf(t, db, "ann"), int64(40), "of ann")
	assert.Equal(t, pointsOf(t, db, "bob"), int64(40), "of bob, who has bought nothing")
}
