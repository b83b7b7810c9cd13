package attacks_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// saw is a service that answers with the request that it received.
func saw(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
	_ = r.Header.Write(w)
}

func get(path string, fields ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: shop\r\n" + strings.Join(fields, "") + "\r\n"
}

// TestQueryPassesAsItCame tests that the gateway does not rewrite a query, which would change what
// was signed.
func TestQueryPassesAsItCame(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "", saw)
	for _, query := range []string{"z=1&q=a;b&a=2", "a=%zz&b=1", "a&b&a", "%", "x=1;y=2"} {
		for _, request := range []string{get("/search?" + query), post("/search?"+query, "x"), post("/search?"+query, "x", key(len(query)))} {
			got := x.send(t, request)
			assert.Contains(t, got, " /search?"+query+"\n", "the query that the service got")
		}
	}
}

// TestTrustedProxiesAreBelieved tests that only trusted servers may say how a request arrived.
func TestTrustedProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	const told = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\nClient-Cert: :MAo=:\r\nClient_Cert: :MAo=:\r\n"
	for file, want := range map[string]string{"trusted_proxies: [127.0.0.0/8]\n": "https shop.example :MAo=:1", "": "http shop 0"} {
		x := newTarget(t, file, func(w http.ResponseWriter, r *http.Request) {
			certificates := 0
			for name, values := range r.Header { // however it is spelt
				if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "Client-Cert") {
					certificates += len(values)
				}
			}
			fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"), " ", r.Header.Get("X-Forwarded-Host"), " ", r.Header.Get("Client-Cert"), certificates)
		})
		assert.Equal(t, x.send(t, get("/", told)), "200 "+want, "not guarded")
		assert.Equal(t, x.send(t, post("/", "x", told, key(1))), "200 "+want, "guarded")
	}
}

// TestFieldsInDisguise tests that a field does not reach the service if the service could read it
// as one that only the gateway or a trusted server may set.
func TestFieldsInDisguise(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "trusted_proxies: [192.0.2.1]\ndefaults: {tenant: 'header:X-User'}\n", saw)
	const disguised = "X_User: root\r\nx_uSER: root\r\nIdempotency_Fence: 99\r\nIdempotency_Attempt: 7\r\nX-User: root\r\nX_Other: stays\r\n"
	for _, request := range []string{get("/", disguised), post("/", "x", disguised)} {
		got := strings.ToLower(x.send(t, request))
		assert.True(t, !strings.Contains(got, "root") && !strings.Contains(got, "fence") && !strings.Contains(got, "attempt: 7"), "the service got %s", got)
		assert.Contains(t, got, "x_other: stays", "another field")
	}
}

// TestUpgrades tests that a connection becomes a tunnel only for the configured protocols, and that
// a client that asks for another protocol is served without it.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "upgrades: [spdy]\nroutes:\n  - {match: POST /votes, key: required}\n", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusOK)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
	for protocol, want := range map[string]int{"h2c": 200, "TLS/1.3": 200, "websocket, h2c": 200, "WebSocket": 101, "spdy": 101} {
		c, err := net.Dial("tcp", x.addr)
		assert.NoError(t, err, "dial")
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, err = io.WriteString(c, get("/", "Connection: Upgrade, HTTP2-Settings\r\n", "Upgrade: "+protocol+"\r\n", "HTTP2-Settings: AAMAAABk\r\n"))
		assert.NoError(t, err, "send")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		assert.NoError(t, err, "answer")
		assert.Equal(t, resp.StatusCode, want, "the answer to %s", protocol)
		_ = resp.Body.Close()
		_ = c.Close()
	}
}

// TestConnectionThatTakesAway tests that a client cannot remove a field that the guard decides by.
func TestConnectionThatTakesAway(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "trusted_proxies: [127.0.0.0/8]\ndefaults: {tenant: {header_secret: X-Api-Key}}\n", saw)
	for _, name := range []string{"Authorization", "cookie", "Content-Type", "x-api-key"} {
		for _, request := range []string{
			get("/", name+": v\r\n", "Connection: close, "+name+"\r\n"),
			post("/", "x", name+": v\r\n", "Connection: "+name+", close\r\n", key(1)),
		} {
			got := x.send(t, request)
			assert.Equal(t, got, "400 request-ambiguous", "%s", name)
		}
	}
	got := x.send(t, get("/", "X-Mine: v\r\n", "Connection: X-Mine\r\n"))
	assert.True(t, strings.HasPrefix(got, "200 ") && !strings.Contains(got, "X-Mine"), "another field ends here: %s", got)
}

// TestNothingIsMadeUp tests that an answer without a content type gets none, whatever its body
// looks like, and that a replay is the same.
func TestNothingIsMadeUp(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html><script>alert(1)</script>")
	})
	for _, request := range []string{get("/"), post("/", "x"), post("/", "x", key(1)), post("/", "x", key(1))} {
		c, err := net.Dial("tcp", x.addr)
		assert.NoError(t, err, "dial")
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, err = io.WriteString(c, request)
		assert.NoError(t, err, "send")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		assert.NoError(t, err, "answer")
		assert.Equal(t, strings.Join(resp.Header["Content-Type"], "|"), "", "the type of an answer that has none")
		_ = resp.Body.Close()
		_ = c.Close()
	}
}

// TestMethodsThatAreNotPassedOn tests which methods are refused, and that Via is set for the
// others.
func TestMethodsThatAreNotPassedOn(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "", saw)
	for _, method := range []string{"CONNECT shop:443", "TRACE /"} {
		got := x.send(t, method+" HTTP/1.1\r\nHost: shop:443\r\nCookie: s=1\r\n\r\n")
		assert.True(t, strings.HasPrefix(got, "405 ") && !strings.Contains(got, "s=1"), "%s: %s", method, got)
	}
	for _, request := range []string{get("/", "Via: 1.0 front\r\n"), post("/", "x", "Via: 1.0 front\r\n", key(1))} {
		got := x.send(t, request)
		assert.Contains(t, got, "Via: 1.0 front\r\nVia: 1.1 retrysafe", "who has passed it on")
	}
}
