package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestEvents is the example of docs/gateway.md: the events of a third party by their id, handshakes
// without one, a duplicate while the first runs, keys in bodies, and a service that answers 200 to
// everything.
func TestEvents(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	began, end := make(chan struct{}, 1), make(chan struct{})
	base := fromFile(t, `
routes:
  - match: POST /slack/events
    key: {fields: [/event_id], any_payload: true, missing: pass}
    operation: slack
    tenant: global
    in_progress: {status: 200}
    on_duplicate: {status: 200}
  - {match: "POST /v2/payments", key: required, key_field: /idempotency_key}
  - {match: "POST /stock", outcome: {field: /code, done: [0, 200], not_run: [500]}}
`, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := effects.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(string(body), "slow"):
			began <- struct{}{}
			<-end
		case r.URL.Path == "/stock" && n%2 == 1:
			_, _ = io.WriteString(w, `{"code":500,"msg":"sold out"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"code":0,"n":%d}`, n)
	})
	post := func(path, body string, header ...string) string {
		resp := sendOnly(t, "POST", base+path, body, append([]string{"Content-Type", "application/json", "Authorization", "Bearer opaque"}, header...)...)
		said, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "%s", path)
		return fmt.Sprint(resp.StatusCode, " ", string(said))
	}
	const handshake = `{"type":"url_verification","challenge":"abc"}`
	assert.Equal(t, post("/slack/events", handshake), `200 {"code":0,"n":1}`, "a handshake")
	assert.Equal(t, post("/slack/events", handshake), `200 {"code":0,"n":2}`, "another one")
	first := make(chan string, 1)
	go func() { first <- post("/slack/events", `{"event_id":"Ev1","event":"slow"}`) }()
	<-began
	assert.Equal(t, post("/slack/events", `{"event_id":"Ev1","event":"slow","retry":1}`), "200 ", "an event while it runs")
	close(end)
	assert.Equal(t, <-first, `200 {"code":0,"n":3}`, "the first")
	assert.Equal(t, post("/slack/events", `{"event_id":"Ev1","event":"slow"}`), "200 ", "an event that was done")

	pay := func(key string, header ...string) string {
		return post("/v2/payments", `{"idempotency_key":"`+key+`","amount":5}`, header...)
	}
	assert.Equal(t, pay("a"), `200 {"code":0,"n":4}`, "a payment")
	assert.Equal(t, pay("a", "Idempotency-Key", "made-by-the-browser"), `200 {"code":0,"n":4}`, "again")
	assert.Equal(t, pay("b"), `200 {"code":0,"n":5}`, "another")
	assert.Contains(t, post("/v2/payments", `{"amount":5}`), `"code":"key-missing"`, "without a key")

	effects.Store(0)
	assert.Equal(t, post("/stock", "{}", "Idempotency-Key", "k"), `200 {"code":500,"msg":"sold out"}`, "refused by a code")
	assert.Equal(t, post("/stock", "{}", "Idempotency-Key", "k"), `200 {"code":0,"n":2}`, "the retry runs")
	assert.Equal(t, post("/stock", "{}", "Idempotency-Key", "k"), `200 {"code":0,"n":2}`, "and is kept")
}
