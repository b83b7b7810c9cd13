package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

const ann = "Authorization: Basic YW5uOg=="

func paymentRequest(body, key string) []string {
	return []string{"POST", "/payments", body, ann, "Idempotency-Key: " + key}
}

func listAccounts(t *testing.T, p *exampletest.Program) string {
	t.Helper()
	return strings.TrimSpace(p.Do(t, "GET", "/accounts", "").Body)
}

// isAccountLocked reports whether a transaction has changed Ann's account and has not ended.
func isAccountLocked(t *testing.T, url string) bool {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	assert.NoError(t, err, "connect")
	defer c.Close(t.Context())
	_, err = c.Exec(t.Context(), "SELECT FROM accounts WHERE owner = 'ann' FOR UPDATE NOWAIT")
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "55P03" // lock_not_available
}

// TestOnce: copies of a payment move the money once, and a payment whose process is killed before
// the commit has moved none, so that the retry moves it.
func TestOnce(t *testing.T) {
	t.Parallel()
	postgres := servertest.StartPostgres(t)
	p := exampletest.Start(t, "-postgres", postgres.URL)
	r := paymentRequest(`{"payee":"bob","cents":250}`, "rent-1")
	fresh := 0
	for _, a := range p.AtOnce(t, 20, r[0], r[1], r[2], r[3:]...) {
		assert.Equal(t, a.Status, 201, "status; %s", a.Body)
		assert.Contains(t, a.Body, `"payer":"ann","payee":"bob","cents":250`, "answer")
		if !a.Replayed() {
			fresh++
		}
	}
	assert.Equal(t, fresh, 1, "answers that are not replayed")
	const once = `[{"owner":"ann","balance":9750},{"owner":"bob","balance":250}]`
	assert.Equal(t, listAccounts(t, p), once, "after 20 copies")

	for i, bad := range []struct {
		body   string
		status int
	}{{`{"payee":"bob","cents":99999}`, 409}, {`{"payee":"eve","cents":1}`, 409}, {`{"payee":"bob","cents":-1}`, 400}, {`x`, 400}} {
		for range 2 {
			r := paymentRequest(bad.body, fmt.Sprint("bad-", i))
			assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, bad.status, "status of %s", bad.body)
		}
	}
	assert.Equal(t, p.Do(t, r[0], r[1], `{"payee":"bob","cents":251}`, r[3:]...).Status, 422, "another payment with the same key")
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], ann).Status, 400, "a payment without a key")
	assert.Equal(t, listAccounts(t, p), once, "after the refusals")

	slow := exampletest.Start(t, "-postgres", postgres.URL, "-pause", "10m")
	r = paymentRequest(`{"payee":"bob","cents":1000}`, "rent-2")
	gone := make(chan error, 1)
	go func() {
		_, err := slow.Send(t.Context(), r[0], r[1], r[2], r[3:]...)
		gone <- err
	}()
	exampletest.Await(t, "the transaction of the second payment", func() bool { return isAccountLocked(t, postgres.URL) })
	slow.Kill()
	assert.True(t, <-gone != nil, "the client of the process that was killed gets no answer")
	assert.Equal(t, listAccounts(t, p), once, "after the kill")
	for _, a := range p.AtOnce(t, 3, r[0], r[1], r[2], r[3:]...) {
		assert.Equal(t, a.Status, 201, "status of the retry; %s", a.Body)
	}
	assert.Equal(t, listAccounts(t, p), `[{"owner":"ann","balance":8750},{"owner":"bob","balance":1250}]`, "after the retries")
	p.Stop(t)
}
