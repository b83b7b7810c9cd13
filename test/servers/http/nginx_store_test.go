package http_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestNginxStoreAway is H13: nothing runs without the store, and requests succeed again when the
// store is back.
func TestNginxStoreAway(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{brief: true, origin: answerOrders()})
	assert.Equal(t, f.postOrder("before", "x").status, 201, "while it is there")
	resume := f.redis.Stall()
	f.checkProblem(f.postOrder("k", "x"), 503, "store-unavailable", true)
	f.checkProblem(f.postOrder("before", "x"), 503, "store-unavailable", true)
	f.checkStarts(1, "without the store")
	resume()
	assert.Equal(t, f.postOrder("before", "x").header.Get("Idempotency-Replayed"), "true", "finished work")
	// A claim whose answer got lost is released, if it was applied at all.
	f.awaitTrue(func() bool { return f.postOrder("k", "x").status == 201 }, "the key that was refused")
	f.checkStarts(2, "when the store is back")
	f.redis.Kill()
	f.checkProblem(f.postOrder("k", "x"), 503, "store-unavailable", true)
	assert.Equal(t, f.sendRequest("GET", "/orders", "").status, 201, "what is not guarded passes")
}

// TestNginxClaimWithoutAnswer: a claim that was applied, and whose answer came too late, is
// released.
func TestNginxClaimWithoutAnswer(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{brief: true, origin: answerOrders(), replace: map[string]string{"worker_processes auto": "worker_processes 1"}})
	assert.Equal(t, f.postOrder("before", "x").status, 201, "while it is there")
	store, _ := f.records()
	records := func(state retrysafe.State) int {
		page, err := store.List(t.Context(), storeapi.ListRequest{Layer: "nginx", State: state, Limit: 100})
		assert.NoError(t, err, "list")
		return len(page.Records)
	}
	var key string
	heard := int64(0)
	for n := 0; ; n++ { // on a busy machine every try may be late, or answered in time
		assert.True(t, n < 20, "no claim was applied without an answer")
		key = fmt.Sprint("k", n)
		resume := f.redis.Stall()
		go func() { // the last try is in time, and its reader has just gone
			time.Sleep(3100 * time.Millisecond)
			resume()
		}()
		r := f.postOrder(key, "x")
		resume()
		if r.status == 201 { // it was answered after all
			heard++
			continue
		}
		f.checkProblem(r, 503, "store-unavailable", true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		waits.Until(ctx, func() bool { return records(retrysafe.StateReleased) > 0 })
		cancel()
		if records(retrysafe.StateReleased) > 0 {
			break // applied, and released
		}
	}
	f.checkStarts(1+heard, "nothing ran")
	r := f.postOrder(key, "x")
	assert.Equal(t, r.status, 201, "the next (%s)", r.body)
	f.checkStarts(2+heard, "the next")
}

// TestNginxStoreAwayAtTheEnd: finished work is answered, and what the store did not confirm is
// stored when it is back.
func TestNginxStoreAwayAtTheEnd(t *testing.T) {
	t.Parallel()
	var f *nginxFront
	resume := make(chan func(), 1)
	f = startNginx(t, nginxSetup{brief: true, origin: func(w http.ResponseWriter, _ *http.Request) {
		resume <- f.redis.Stall()
		_, _ = io.WriteString(w, "done")
	}})
	first := f.postOrder("k", "x")
	assert.Equal(t, first.body+first.header.Get("Idempotency-Stored"), "doneunconfirmed", "the answer (%d)", first.status)
	(<-resume)()
	f.awaitTrue(func() bool { return f.postOrder("k", "x").header.Get("Idempotency-Replayed") == "true" }, "the answer in the store")
	assert.Equal(t, f.postOrder("k", "x").header["Idempotency-Stored"], nil, "it is confirmed")
	f.checkStarts(1, "the store away at the end")
}

// TestNginxLeaseLost: an answer that comes after another request has acquired the key is not sent.
func TestNginxLeaseLost(t *testing.T) {
	t.Parallel()
	var f *nginxFront
	f = startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, r *http.Request) {
		_, engine := f.records()
		rec := f.onlyRecord(engine)
		err := engine.Resolve(r.Context(), rec.Key.Key, retrysafe.Resolution{Outcome: retrysafe.Done, Fence: rec.Fence, Force: true})
		assert.NoError(t, err, "resolve")
		_, _ = io.WriteString(w, "late")
	}})
	f.checkProblem(f.postOrder("k", "x"), 409, "lease-lost", true)
	f.checkProblem(f.postOrder("k", "x"), 409, "answer-not-kept", false)
}

// TestNginxNeedsAStoreThatKeeps: a server that may evict records is refused, also one without
// CONFIG.
func TestNginxNeedsAStoreThatKeeps(t *testing.T) {
	t.Parallel()
	for _, start := range []func(testing.TB, ...string) *servers.Redis{servers.StartRedis, servers.StartHostedRedis} {
		f := startNginx(t, nginxSetup{origin: answerOrders(), redis: start(t, "--maxmemory-policy", "allkeys-lru").Addr})
		f.checkProblem(f.postOrder("k", "x"), 503, "store-unavailable", true)
		f.checkStarts(0, "a store that drops records")
		assert.Contains(t, f.readLog(), "each drop lets a key run again", "the log")
	}
}

// TestNginxHostedRedis: a server without CONFIG, as a user with the rights of docs/stores.md alone.
func TestNginxHostedRedis(t *testing.T) {
	t.Parallel()
	redis := servers.StartHostedRedis(t)
	redis.AsUser(t, "least", "rs:", servers.LeastRights(t)...)
	f := startNginx(t, nginxSetup{origin: answerOrders(), redis: redis.Addr, replace: map[string]string{
		"redis = {": `redis = {username = "least", password = "a-password", `,
	}})
	for range 2 {
		assert.Equal(t, f.postOrder("k", "x").status, 201, "a request; the log: %s", f.readLog())
	}
	f.checkStarts(1, "one payment, sent twice")
}

// TestNginxPassword: the server requires a password and has several databases.
func TestNginxPassword(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t)
	c, err := net.Dial("tcp", redis.Addr)
	assert.NoError(t, err, "connect")
	defer c.Close()
	_, err = io.WriteString(c, "CONFIG SET requirepass swordfish\r\n")
	assert.NoError(t, err, "set the password")
	said := make([]byte, 5)
	_, err = io.ReadFull(c, said)
	assert.Equal(t, string(said), "+OK\r\n", "set the password (%v)", err)
	for password, status := range map[string]int{"swordfish": 201, "herring": 503} {
		f := startNginx(t, nginxSetup{origin: answerOrders(), redis: redis.Addr, guard: `prefix = "` + password + `:",`, replace: map[string]string{
			"redis = {": `redis = {password = "` + password + `", database = 3, `,
		}})
		for range 3 {
			assert.Equal(t, f.postOrder("k", "x").status, status, "with %s", password)
		}
	}
}

// TestNginxRefusesToStart: invalid options, above all a lease that ends before the service must
// answer.
func TestNginxRefusesToStart(t *testing.T) {
	t.Parallel()
	for want, guard := range map[string]string{
		"must be longer than proxy_timeouts": `lease = 27,`,
		"proxy_timeouts must be a positive":  `proxy_timeouts = false,`,
		"there is no option leese":           `leese = 60,`,
		`on_doubt is "retry"`:                `on_doubt = "retry",`,
		"at least 16 random":                 `secret = "short",`,
		"RETRYSAFE_SECRET is not set":        `secret = "",`,
		"max_answer is at most":              `max_answer = 2000000,`,
		"retention must be":                  `retention = 0,`,
		"not_run must be a list":             `not_run = 503,`,
		"not_run has 200; use":               `not_run = {409, 200},`,
		"not_run has 504, which also":        `not_run = {504},`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := &nginxFront{t: t}
			s := nginxSetup{service: "127.0.0.1:1", redis: "127.0.0.1:1", replace: map[string]string{
				"duplicate = \"reject\"": guard,
			}}
			said, err := f.startNginx(s)
			assert.True(t, err != nil, "it does not start")
			assert.Contains(t, said, want, "what it says")
		})
	}
}

// TestNginxSecretEnds: nginx does not start with white space at an end of RETRYSAFE_SECRET.
func TestNginxSecretEnds(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{nginxSecret + "\n", " " + nginxSecret} {
		f := &nginxFront{t: t}
		said, err := f.startNginx(nginxSetup{service: "127.0.0.1:1", redis: "127.0.0.1:1", secret: secret})
		assert.True(t, err != nil, "it does not start")
		assert.Contains(t, said, "begins or ends with white space", "what it says")
	}
}

// TestNginxHTTP2: a request over HTTP/2 to a guarded location is refused. If another server block
// in front accepts HTTP/2, it is guarded like any other.
func TestNginxHTTP2(t *testing.T) {
	t.Parallel()
	bare, front := "127.0.0.1:"+servers.FreePort(t), "127.0.0.1:"+servers.FreePort(t)
	f := startNginx(t, nginxSetup{origin: answerOrders(), replace: map[string]string{
		"client_max_body_size 2m;": "listen " + bare + " http2; listen unix:front.sock; client_max_body_size 2m;",
		"  upstream service {":     "server { listen " + front + " http2; location / { proxy_pass http://unix:front.sock; } }\n  upstream service {",
	}})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport}
	f.url = "http://" + bare
	assert.Equal(t, f.postOrder("k", "x").status, 500, "a request that cannot be guarded")
	f.checkStarts(0, "it does not pass")
	assert.Equal(t, f.sendRequest("GET", "/orders", "").status, 201, "others pass")
	f.url = "http://" + front
	assert.Equal(t, f.postOrder("k", "x").status, 201, "the first")
	assert.Equal(t, f.postOrder("k", "x").header.Get("Idempotency-Replayed"), "true", "its repeat")
	f.checkStarts(2, "one of each")
}
