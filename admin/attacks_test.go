package admin_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
)

// listen serves the API on the loopback interface, as its programs do.
func (p *place) listen(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: p.server, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(l) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// raw sends bytes and returns the first answer.
func raw(t *testing.T, addr, text string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.200q: %v", text, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // the server may close first
	return resp, string(body)
}

// message is a request of HTTP/1.1: its first line, fields and a body.
func message(addr, first, body string, fields ...string) string {
	if body != "" {
		fields = append(fields, "Content-Length: "+strconv.Itoa(len(body)))
	}
	return first + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: close\r\n" + strings.Join(append(fields, "", body), "\r\n")
}

const (
	vera   = "Authorization: Bearer token-of-vera"
	rita   = "Authorization: Bearer token-of-rita"
	rex    = "Authorization: Bearer token-of-rex"
	isJSON = "Content-Type: application/json"
)

type attack struct {
	name, first, body string
	fields            []string
	want              int
}

func (p *place) attacked(t *testing.T, addr string, attacks []attack) {
	t.Helper()
	for _, a := range attacks {
		resp, text := raw(t, addr, message(addr, a.first, a.body, a.fields...))
		if resp.StatusCode != a.want {
			t.Errorf("%s: %d %.200s, want %d", a.name, resp.StatusCode, text, a.want)
		}
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s: the answer has %q", a.name, s)
			}
		}
	}
}

// TestCallersWithoutAToken: a caller may view without a token only straight from this machine, and
// only if nothing says otherwise. With tokens, or with a trusted proxy, it may not: a forwarder on
// this machine passes requests on as they are.
func TestCallersWithoutAToken(t *testing.T) {
	proxy := &admin.TrustedProxy{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}, UserHeader: "X-User", RolesHeader: "X-Groups",
		Roles: map[string]admin.Roles{"ops": admin.View},
	}
	for name, o := range map[string]admin.Options{"none": {}, "tokens": {Tokens: tokens()}, "no token": {Tokens: admin.Tokens{}}, "trusted proxy": {TrustedProxy: proxy}} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			p.options.Tokens, p.options.TrustedProxy = o.Tokens, o.TrustedProxy
			p.serve(t)
			let := http.StatusOK
			if name != "none" {
				let = http.StatusUnauthorized
			}
			p.withoutAToken(t, let)
		})
	}
}

// withoutAToken asks without a good token. let is the answer to a caller on this machine.
func (p *place) withoutAToken(t *testing.T, let int) {
	t.Helper()
	addr := p.listen(t)
	get := func(name string, want int, fields ...string) attack {
		return attack{name, "GET /api/v1/records", "", fields, want}
	}
	p.attacked(t, addr, []attack{
		get("plain", let),
		get("the page of the console", let, "Origin: http://"+addr, "Sec-Fetch-Site: same-origin"),
		get("X-Forwarded-For in another case", 401, "x-fORWARDED-fOR: 192.0.2.1"),
		get("with underscores", 401, "X_Forwarded_For: 192.0.2.1"),
		get("a field of a proxy of which nobody has heard", 401, "X-Forwarded-Something: 1"),
		get("a content network", 401, "True-Client-IP: 192.0.2.1"),
		get("another content network", 401, "Fastly-Client-IP: 192.0.2.1"),
		get("a service mesh", 401, "X-Envoy-External-Address: 192.0.2.1"),
		get("X-Real-IP", 401, "X-Real-IP: 127.0.0.1"),
		get("Forwarded without a value", 401, "Forwarded:"),
		get("two origins", 401, "Origin: http://"+addr, "Origin: http://evil.example"),
		get("no origin that has a name", 401, "Origin: null"),
		get("an origin that begins alike", 401, "Origin: http://"+addr+".evil.example"),
		get("a page of another site", 403, "Sec-Fetch-Site: cross-site"),
		get("a page of another site, with a token", 403, vera, "Sec-Fetch-Site: cross-site"),
		get("another page, twice", 403, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
		get("a page of the same site", 403, "Sec-Fetch-Site: same-site"),
		get("an empty token", 401, "Authorization:"),
		get("another scheme", 401, "Authorization: Basic dmVyYTp4"),
		get("a scheme without a token", 401, "Authorization: Bearer"),
		get("a token without a scheme", 401, "Authorization: token-of-vera"),
		get("two tokens, the first good", 401, vera, "Authorization: Bearer x"),
		get("two tokens, the second good", 401, "Authorization: Bearer x", vera),
		get("two good tokens", 401, vera, rita),
		get("two tokens in one field", 401, vera+", Bearer token-of-rita"),
		get("a token with a tab", 401, "Authorization: Bearer\ttoken-of-vera"),
	})
	for name, text := range map[string]string{
		"the old protocol":     "GET /api/v1/records HTTP/1.0\r\nHost: " + addr + "\r\n\r\n",
		"no host":              "GET /api/v1/records HTTP/1.0\r\n\r\n",
		"DNS rebinding":        "GET /api/v1/records HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
		"a name that looks so": "GET /api/v1/records HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\nConnection: close\r\n\r\n",
		"user and host":        "GET /api/v1/records HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\nConnection: close\r\n\r\n",
		"an absolute target":   "GET http://evil.example/api/v1/records HTTP/1.1\r\nHost: " + addr + "\r\nConnection: close\r\n\r\n",
		"two hosts":            "GET /api/v1/records HTTP/1.1\r\nHost: " + addr + "\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
	} {
		if resp, text := raw(t, addr, text); resp.StatusCode/100 != 4 {
			t.Errorf("%s: %d %.200s", name, resp.StatusCode, text)
		}
	}
	for from, want := range map[string]int{
		"127.0.0.1:1": let, "127.8.9.1:1": let, "[::1]:1": let, "[::ffff:127.0.0.1]:1": let,
		"[::ffff:192.0.2.1]:1": 401, "[::ffff:0:127.0.0.1]:1": 401, "[64:ff9b::7f00:1]:1": 401, "0.0.0.0:1": 401, "@": 401, "": 401, "127.0.0.1": 401,
	} {
		if status, text := p.ask(t, "", "GET", "/records", "", func(r *http.Request) { r.RemoteAddr = from }); status != want {
			t.Errorf("from %q: %d %s", from, status, text)
		}
	}
}

// TestTrustedProxy: what a trusted server says is believed once, and a caller that it does not know
// gets no more for coming through it.
func TestTrustedProxy(t *testing.T) {
	p := open(t)
	p.options.TrustedProxy = &admin.TrustedProxy{
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "X-Forwarded-User", RolesHeader: "X-Forwarded-Groups",
		Roles: map[string]admin.Roles{"ops": admin.View, "leads": admin.View | admin.Reveal},
	}
	p.serve(t)
	addr := p.listen(t)
	get := func(name string, want int, fields ...string) attack {
		return attack{name, "GET /api/v1/records", "", fields, want}
	}
	const user, ops = "X-Forwarded-User: ann", "X-Forwarded-Groups: ops"
	p.attacked(t, addr, []attack{
		get("known", 200, user, ops, "X-Forwarded-For: 192.0.2.1"),
		get("in another case", 200, "x-forwarded-user: ann", "X-FORWARDED-GROUPS: dev, ops"),
		get("a token through the proxy", 200, vera, "X-Forwarded-For: 192.0.2.1"),
		get("nobody", 401),
		get("no name", 401, ops),
		get("no group", 401, user),
		get("a group without a role", 401, user, "X-Forwarded-Groups: dev"),
		get("a group that begins alike", 401, user, "X-Forwarded-Groups: ops2"),
		get("a group in another case", 401, user, "X-Forwarded-Groups: OPS"),
		get("two names", 401, user, "X-Forwarded-User: bob", ops),
		get("two names, with a token", 401, user, "X-Forwarded-User: bob", ops, vera),
		get("two lists of groups", 401, user, ops, "X-Forwarded-Groups: leads"),
		get("underscores", 401, "X_Forwarded_User: ann", "X_Forwarded_Groups: ops"),
		get("a name that turns the text around", 401, "X-Forwarded-User: ann\u202e", ops),
		get("a name with a tab", 401, "X-Forwarded-User: ann\tbob", ops),
		get("a name that is no text", 401, "X-Forwarded-User: ann\xff", ops),
		get("a long name", 401, "X-Forwarded-User: "+strings.Repeat("a", 1000), ops),
		{"a viewer that reveals", "POST /api/v1/records/" + p.inDoubtRef(t) + "/reveal", `{"reason":"x"}`, []string{user, ops, isJSON}, 403},
	})
	mapped := *p.options.TrustedProxy
	mapped.Addresses = []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}
	if mapped.Validate() == nil {
		t.Error("addresses that match no caller are accepted")
	}
	if status, text := p.ask(t, "", "GET", "/records", "", func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set("X-Forwarded-User", "ann")
		r.Header.Set("X-Forwarded-Groups", "leads")
	}); status != 401 {
		t.Errorf("the proxy's fields from elsewhere: %d %s", status, text)
	}
}

// inDoubtRef returns the reference of the record in doubt, which does not depend on who asks.
func (p *place) inDoubtRef(t *testing.T) string {
	t.Helper()
	options := p.options
	p.options.TrustedProxy = nil
	p.serve(t)
	ref := p.inDoubt(t).Ref
	p.options = options
	p.serve(t)
	return ref
}

// TestPathsAndMethods: no spelling of a path and no method gets around a role.
func TestPathsAndMethods(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t).Ref
	addr := p.listen(t)
	resolve := `{"fence":1,"outcome":"not-done","reason":"x"}`
	as := func(name, first string, want int, fields ...string) attack {
		return attack{name, first, "", fields, want}
	}
	p.attacked(t, addr, []attack{
		as("HEAD of what is hidden", "HEAD /api/v1/records/"+ref+"/reveal", 405, rex),
		as("GET of what is hidden", "GET /api/v1/records/"+ref+"/reveal?reason=x", 405, rex),
		as("a reason in the address", "GET /api/v1/records/"+ref+"?reveal=true&reason=x", 400, rex),
		{"a reason in the address of a look", "POST /api/v1/records/" + ref + "/reveal?reason=x", `{}`, []string{rex, isJSON}, 400},
		{"a look by a form", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"x"}`, []string{rex, "Content-Type: text/plain"}, 415},
		{"a look from another site", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"x"}`, []string{rex, isJSON, "Sec-Fetch-Site: cross-site"}, 403},
		{"a look from another origin", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"x"}`, []string{rex, isJSON, "Origin: http://evil.example"}, 403},
		{"a look by a viewer", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"x"}`, []string{vera, isJSON}, 403},
		as("PUT", "PUT /api/v1/records", 405, rita),
		as("DELETE", "DELETE /api/v1/records/"+ref, 405, rita),
		as("PATCH", "PATCH /api/v1/records/"+ref, 405, rita),
		as("OPTIONS", "OPTIONS /api/v1/records", 405, "Origin: http://evil.example", "Access-Control-Request-Method: POST"),
		as("TRACE", "TRACE /api/v1/records", 405, rita),
		as("a method of its own", "RESOLVE /api/v1/records/"+ref+"/resolve", 405, rita),
		as("GET of a change", "GET /api/v1/records/"+ref+"/resolve", 405, rita),
		as("lower case", "get /api/v1/records", 405, vera),
		as("a method in a field", "GET /api/v1/records/"+ref, 200, vera, "X-HTTP-Method-Override: POST"),
		as("dots", "GET /api/v1/x/../records", 307),
		as("encoded dots", "GET /api/v1/x/%2e%2e/records", 404),
		as("two slashes", "GET //api/v1/records", 307),
		as("an encoded slash", "GET /api%2fv1/records", 404),
		as("a slash behind", "GET /api/v1/records/", 404),
		as("in another case", "GET /API/v1/records", 404),
		as("a parameter of the path", "GET /api/v1/records;a=1", 404),
		as("a null", "GET /api/v1/records%00", 404),
		as("a backslash", `GET /api/v1\records`, 404),
		as("out of the page", "GET /../../etc/passwd", 307),
		as("out of the page, encoded", "GET /%2e%2e/%2e%2e/etc/passwd", 404),
		as("out of the page, with backslashes", `GET /..%5c..%5cetc%5cpasswd`, 404),
		as("the page's folder", "GET /console/", 404),
		as("a reference of nothing", "GET /api/v1/records/%2e%2e%2fme", 404, vera),
		as("a range", "GET /api/v1/records", 200, vera, "Range: bytes=0-1"),
		{"a change by a viewer", "POST /api/v1/records/" + ref + "/resolve", resolve, []string{vera, isJSON}, 403},
		{"a change by nobody", "POST /api/v1/records/" + ref + "/resolve", resolve, []string{isJSON}, 401},
		{"a form", "POST /api/v1/records/" + ref + "/resolve", resolve, []string{rita, "Content-Type: text/plain"}, 415},
		{"two types", "POST /api/v1/records/" + ref + "/resolve", resolve, []string{rita, isJSON, "Content-Type: text/plain"}, 415},
		{"no type", "POST /api/v1/records/" + ref + "/resolve", resolve, []string{rita}, 415},
		{"a body where none belongs", "GET /api/v1/records", "x=1", []string{vera}, 400},
	})
	for path, wrong := range map[string]string{"//evil.example/%2e%2e": "//", "/\\evil.example/..": "\\", "/api/v1//evil.example": "//"} {
		resp, _ := raw(t, addr, message(addr, "GET "+path, ""))
		if to := resp.Header.Get("Location"); strings.HasPrefix(to, wrong) || strings.Contains(to, "://") {
			t.Errorf("GET %s is sent to %q", path, to)
		}
	}
	resp, _ := raw(t, addr, message(addr, "OPTIONS /api/v1/records", "", "Origin: http://evil.example"))
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("a page of another site is told %s", name)
		}
	}
	if again := p.inDoubt(t); again.Ref != ref {
		t.Errorf("the record has changed: %+v", again)
	}
}

// TestSmuggling: a request whose end is not certain is refused or ends its connection.
func TestSmuggling(t *testing.T) {
	p := open(t)
	addr := p.listen(t)
	first := "POST /api/v1/records/find HTTP/1.1\r\nHost: " + addr + "\r\n" + vera + "\r\n" + isJSON + "\r\n"
	second := "GET /api/v1/audit HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
	for name, text := range map[string]string{
		"two lengths":       first + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + second,
		"length with sign":  first + "Content-Length: +2\r\n\r\n{}" + second,
		"space and colon":   first + "Content-Length : 2\r\n\r\n{}" + second,
		"a folded field":    first + "X: a\r\n Content-Length: 2\r\n\r\n{}" + second,
		"two encodings":     first + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second,
		"unknown encoding":  first + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second,
		"a bad chunk":       first + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + second,
		"a field of no end": first + "X: " + strings.Repeat("a", 1<<20),
	} {
		if resp, text := raw(t, addr, text); resp.StatusCode/100 == 2 {
			t.Errorf("%s: %d %.200s", name, resp.StatusCode, text)
		}
	}
}

// TestWhatACallerMayCost: bodies are read only of callers that are let in, and within bounds.
func TestWhatACallerMayCost(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t).Ref
	addr := p.listen(t)
	deep := strings.Repeat("[", 20_000)
	p.attacked(t, addr, []attack{
		{"a long key", "POST /api/v1/records/find", `{"id":"` + strings.Repeat("a", 100<<10) + `"}`, []string{vera, isJSON}, 413},
		{"a deep document", "POST /api/v1/quotas/find", deep[:10<<10], []string{vera, isJSON}, 400},
		{"a deeper document", "POST /api/v1/records/" + ref + "/resolve", `{"body":` + deep, []string{rita, isJSON}, 400},
		{"two documents", "POST /api/v1/quotas/find", `{"tenant":"x"}{"tenant":"y"}`, []string{vera, isJSON}, 400},
		{"a long reason", "POST /api/v1/records/" + ref + "/resolve", `{"fence":1,"outcome":"not-done","reason":"` + strings.Repeat("a", 2000) + `"}`, []string{rita, isJSON}, 400},
		{"a long reason of a look", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"` + strings.Repeat("a", 2000) + `"}`, []string{rex, isJSON}, 400},
		{"a very long reason of a look", "POST /api/v1/records/" + ref + "/reveal", `{"reason":"` + strings.Repeat("a", 100<<10) + `"}`, []string{rex, isJSON}, 413},
		{"a limit of none", "GET /api/v1/audit?limit=0", "", []string{vera}, 400},
		{"a limit below zero", "GET /api/v1/records?limit=-1", "", []string{vera}, 400},
		{"a limit above all", "GET /api/v1/records?limit=1000000", "", []string{vera}, 400},
		{"a limit that is no number", "GET /api/v1/records?limit=1e3", "", []string{vera}, 400},
		{"an age that no number holds", "GET /api/v1/records?older=99999999999999999999", "", []string{vera}, 400},
	})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A caller that is not let in is answered before its body has come.
	announced := "POST /api/v1/records/find HTTP/1.1\r\nHost: " + addr + "\r\n" + isJSON + "\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 1000000\r\n\r\n{"
	_, _ = io.WriteString(conn, announced)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 401 {
		t.Fatalf("a body that does not come: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// TestTextsOfCallers: what callers write stands in the audit log and on terminals. It has no
// control characters, and does not turn other text around.
func TestTextsOfCallers(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t)
	p.withMessages(t)
	for name, text := range map[string]string{
		"a line break": "a\nb", "an escape": "a\x1b[2Jb", "a bell": "\a", "a null": "a\x00b", "a delete": "a\x7fb", "C1": "a\u009b2Jb",
		"turned around": "a\u202eb", "isolated": "a\u2066b", "a byte order mark": "\ufeffa", "a tag": "a\U000e0041",
	} {
		quoted := jsonOf(text)
		resolve := fmt.Sprintf(`{"fence":%d,"outcome":"not-done","reason":%s}`, ref.Fence, quoted)
		for what, body := range map[string]string{
			"/records/" + ref.Ref + "/resolve": resolve,
			"/outboxes/shop/discard":           `{"all":true,"count":1,"reason":` + quoted + `}`,
			"/deadletters/orders/discard":      `{"all":true,"count":1,"reason":"x","why":` + quoted + `}`,
			"/deadletters/orders/redrive":      `{"reason":"x","letters":[` + quoted + `]}`,
		} {
			if status, answer := p.ask(t, "rita", "POST", what, body, nil); status != 400 {
				t.Errorf("%s in %s: %d %s", name, what, status, answer)
			}
		}
		if status, answer := p.ask(t, "rex", "POST", "/records/"+ref.Ref+"/reveal", `{"reason":`+quoted+`}`, nil); status != 400 {
			t.Errorf("%s in the reason of a look: %d %s", name, status, answer)
		}
		if _, err := admin.ParseTokens("tokens", []byte("a"+text+"b view "+digestOf("a"))); err == nil {
			t.Errorf("%s in the name of a caller", name)
		}
	}
	for _, good := range []string{"because", "Grüße, 退款", "a\u200db", "naïve — “quoted”"} {
		if status, answer := p.ask(t, "rita", "POST", "/deadletters/orders/discard", `{"letters":["0000000000000000"],"reason":`+jsonOf(good)+`}`, nil); status != 200 {
			t.Errorf("reason %q: %d %s", good, status, answer)
		}
	}
	for name, field := range map[string]string{
		"location": "/x\r\nSet-Cookie: a=b", "content_type": "text/html\nX: y", "failure": "a\x1bb",
	} {
		outcome := "done"
		if name == "failure" {
			outcome = "failed"
		}
		body := map[string]any{"fence": ref.Fence, "outcome": outcome, "reason": "x", name: field}
		if outcome == "done" {
			body["status"] = 201
		}
		if status, answer := p.ask(t, "rita", "POST", "/records/"+ref.Ref+"/resolve", jsonOf(body), nil); status != 400 {
			t.Errorf("%s with a line break: %d %s", name, status, answer)
		}
	}
}

// TestAnswersAreSafeOnATerminal: what a client of the service has sent is escaped, also where it is
// revealed.
func TestAnswersAreSafeOnATerminal(t *testing.T) {
	p := open(t)
	p.withMessages(t)
	p.queue.letters[0].Message.Body = []byte("a\u009b2J\u202eb\x7f\x1b</script>")
	_, text := p.ask(t, "rex", "POST", "/deadletters/orders/reveal", `{"reason":"x"}`, nil)
	for _, bad := range []string{"\u009b", "\u202e", "\x7f", "\x1b", "</script>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the answer has %q", bad)
		}
	}
	if !bytes.Contains([]byte(text), []byte(`\u009b`)) {
		t.Errorf("the answer has lost a character: %s", text)
	}
}
