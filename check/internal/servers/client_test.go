package servers_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check/internal/servers"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// client sends plain requests to one shop.
type client struct {
	*servers.Server
	http *http.Client
	keys atomic.Int64
}

// startShop starts a shop for the length of a test.
func startShop(t *testing.T, shop servers.Shop) *client {
	t.Helper()
	s, err := servers.StartAnywhere(shop, t.TempDir(), freeport.Get)
	assert.NoError(t, err, "start")
	t.Cleanup(func() { _ = s.Close() })
	return &client{Server: s, http: &http.Client{Transport: &http.Transport{}}}
}

// request is what differs between the requests of a test. What is empty has its usual value.
type request struct {
	caller, route, key, body, trouble string
	second                            string // another key
}

// anonymous is a caller without credentials.
const anonymous = "none"

// usual are the values of fields that are empty.
var usual = request{caller: servers.Ann, route: "payments", body: `{"amount":500}`}

func (c *client) newKey() string {
	return "a-key-of-this-test-number-" + strconv.FormatInt(c.keys.Add(1), 10)
}

// reply is an answer that was read. A status of 0 stands for none.
type reply struct {
	status int
	header http.Header
	body   string
}

func (a *reply) isSuccess() bool { return a.status/100 == 2 }

// id returns the number of what was made.
func (a *reply) id() string {
	var made struct{ ID string }
	_ = json.Unmarshal([]byte(a.body), &made)
	return made.ID
}

// send sends q. If it gets no answer, because the shop is restarted, the reply is empty.
func (c *client) send(q request) reply {
	if q.caller == "" {
		q.caller = usual.caller
	}
	if q.route == "" {
		q.route = usual.route
	}
	if q.body == "" {
		q.body = usual.body
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.URL("/"+q.route), strings.NewReader(q.body))
	if err != nil {
		return reply{}
	}
	r.GetBody = nil // so that the client does not repeat it by itself
	r.Header.Set("Content-Type", "application/json")
	if q.caller != anonymous {
		r.Header.Set("Authorization", q.caller)
	}
	for _, key := range []string{q.key, q.second} {
		if key != "" {
			r.Header["Idempotency-Key"] = append(r.Header["Idempotency-Key"], key)
		}
	}
	if q.trouble != "" {
		r.Header.Set("X-Trouble", q.trouble)
	}
	a, err := c.http.Do(r)
	if err != nil {
		return reply{}
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return reply{}
	}
	return reply{a.StatusCode, a.Header, string(body)}
}

// countEffects returns what the shop has made.
func (c *client) countEffects(t *testing.T) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL("/effects"), nil)
	assert.NoError(t, err, "request")
	a, err := c.http.Do(r)
	assert.NoError(t, err, "GET /effects")
	defer a.Body.Close()
	var got struct{ Total int }
	assert.NoError(t, json.NewDecoder(a.Body).Decode(&got), "its answer")
	return got.Total
}

// sendUntilFinal repeats q until it gets an answer that is final: not 409 with a time to retry
// after.
func (c *client) sendUntilFinal(t *testing.T, q request) reply {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		a := c.send(q)
		if a.status != 0 && (a.status != http.StatusConflict || a.header.Get("Retry-After") == "") {
			return a
		}
	}
	t.Fatalf("no final answer within a minute")
	return reply{}
}
