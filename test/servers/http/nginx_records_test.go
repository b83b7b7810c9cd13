package http_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// onlyRecord returns the only record.
func (f *nginxFront) onlyRecord(e *retrysafe.Engine) *retrysafe.Record {
	f.t.Helper()
	store, _ := f.records()
	page, err := store.List(f.t.Context(), storeapi.ListRequest{Layer: "nginx", Limit: 10})
	assert.NoError(f.t, err, "list")
	assert.Equal(f.t, len(page.Records), 1, "records")
	rec, err := e.Lookup(f.t.Context(), page.Records[0].Key.Key)
	assert.NoError(f.t, err, "look up")
	return &rec
}

// TestNginxRecordsAreThoseOfGo: the Go middleware, in the layer of nginx, answers duplicates from
// what nginx stored, and nginx from what the middleware stored. Key, tenant, binding, fingerprint
// and answer are the same to the byte.
func TestNginxRecordsAreThoseOfGo(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders()})
	_, engine := f.records()
	inGo := httptest.NewServer(httpidem.New(engine, &httpidem.Options{Credentials: new(httpidem.Credentials), Layer: "nginx"}).Handler(answerOrders()))
	t.Cleanup(inGo.Close)
	multipart := func(b string) string {
		return "--" + b + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--" + b + "--\r\n"
	}
	type sent struct{ path, body, contentType, credential string }
	for i, s := range []sent{
		{"/orders", "x", "", "Bearer opaque"},
		{"/orders", "x", "", "bEARER   opaque"},
		{"/orders", "x", "", "OpaqueWithoutAScheme"},
		{"/orders?", "", "text/plain", ""},
		{"/orders", "x", "", "Cookie session=ann; theme=dark;; =x; flag ;a=b=c"},
		{"/orders?a=1?b&&", "x", "Application/JSON ; charset=utf-8", "Basic dXNlcjpwYXNz"},
		{"/o%2fr~d!$&'()*+,;=:@/é\"<>|", "\x00\xff\r\n", "application/octet-stream", "basic  dXNlcjo="},
		{"//a/./b/../c", "x", "", "Basic dXNlcg=="},
		{"/" + strings.Repeat("long/", 200), "x", "", "Basic !"},
		// iss i, sub u
		{"/", "x", "", "Bearer e30.eyJpc3MiOiJpIiwic3ViIjoidSJ9.a"},
		// iss null, sub 123
		{"/", "x", "", "bearer e30.eyJpc3MiOm51bGwsInN1YiI6MTIzfQ.a"},
		// an empty sub
		{"/", "x", "", "Bearer e30.eyJzdWIiOiIifQ.a"},
		// an iss that is a number
		{"/", "x", "", "Bearer e30.eyJpc3MiOjEsInN1YiI6InUifQ.a"},
		// a sub that is a list
		{"/", "x", "", "Bearer e30.eyJzdWIiOlsidSJdfQ.a"},
		// no JSON
		{"/", "x", "", "Bearer e30.bm90IGpzb24.a"},
		// four parts
		{"/", "x", "", "Bearer e30.a.b.c"},
		// another scheme
		{"/", "x", "", "Digest username=\"u\""},
		{"/", multipart("abc"), "multipart/form-data; boundary=abc", "Bearer m"},                 //
		{"/", multipart("a b.c"), "Multipart/Mixed; x=\"\\\"\"; Boundary=\"a b.c\"", "Bearer m"}, //
		{"/", multipart("abc"), "multipart/form-data; boundary=", "Bearer m"},                    //
		{"/", multipart("abc"), "multipart/form-data; boundary=abc; boundary=abc", "Bearer m"},   //
		{"/", multipart("abc"), "multipart/form-data", "Bearer m"},                               //
	} {
		for _, first := range []string{f.url, inGo.URL} {
			key := fmt.Sprintf("\"a key, of more than %d \\\"%d\"", len(first)*100, i)
			ask := func(base string) (r nginxReply) {
				front := &nginxFront{t: t, url: base, client: f.client}
				header := []string{"Idempotency-Key", key}
				if cookies, ok := strings.CutPrefix(s.credential, "Cookie "); ok {
					header = append(header, "Cookie", cookies)
				} else if s.credential != "" {
					header = append(header, "Authorization", s.credential)
				}
				if s.contentType != "" {
					header = append(header, "Content-Type", s.contentType)
				}
				return front.sendRequest("POST", s.path, s.body, header...)
			}
			second := inGo.URL
			if first == inGo.URL {
				second = f.url
			}
			a, b := ask(first), ask(second)
			assert.Equal(t, a.status, 201, "%d: the first (%s)", i, a.body)
			assert.Equal(t, b.header.Get("Idempotency-Replayed"), "true", "%d: %q, stored at %s: the repeat (%d %s)", i, s, first, b.status, b.body)
			assert.Equal(t, fmt.Sprint(b.status, b.body, b.header["X-Twice"], b.header["Location"]), fmt.Sprint(a.status, a.body, a.header["X-Twice"],
				a.header["Location"]), "%d: the repeat", i)
		}
	}
}

// TestNginxStoresAsGoDoes: the record itself, and its answer in the form of StoredAnswer.
func TestNginxStoresAsGoDoes(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders(), guard: `retention = "forever",`})
	first := f.postOrder("k", "x")
	_, engine := f.records()
	rec := f.onlyRecord(engine)
	h := first.header.Clone()
	h.Del("Connection")
	h.Del("Server") // of nginx, not of the service
	want, err := httpidem.StoredAnswer(first.status, h, []byte(first.body))
	assert.NoError(t, err, "stored answer")
	assert.Equal(t, string(rec.Answer.Body), string(want.Body), "the stored answer")
	assert.Equal(t, fmt.Sprint(rec.Answer.Codec, rec.Answer.Kept, rec.State, rec.Attempt, rec.OnDoubt, rec.Key.Operation, rec.Expires.IsZero()),
		fmt.Sprint(want.Codec, true, retrysafe.StateCompleted, 1, retrysafe.Refuse, "POST /orders", true), "the record")
	assert.Contains(t, first.body, fmt.Sprintf(`"fence":["%d"]`, rec.Fence), "the fence")
}

// TestNginxDoubtIsResolved: `retrysafe keys` lists what nginx has left in doubt, and resolves it. A
// duplicate gets the operator's answer.
func TestNginxDoubtIsResolved(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }})
	program := theCommand.Get(t)
	keys := func(args ...string) []byte {
		c := exec.CommandContext(t.Context(), program, append([]string{"keys", "--store", "redis://" + f.redis.Addr}, args...)...)
		c.Env = append(os.Environ(), "RETRYSAFE_SECRET="+nginxSecret)
		out, err := c.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("keys %v: %s", args, exit.Stderr)
		}
		assert.NoError(t, err, "keys %v", args)
		return out
	}
	settle := map[string]func(hash, fence string) []string{
		"done": func(hash, fence string) []string {
			return []string{"resolve", hash, "--fence", fence, "--outcome", "done", "--status", "201", "--location", "/orders/7"}
		},
		"failed": func(hash, fence string) []string {
			return []string{"resolve", hash, "--fence", fence, "--outcome", "failed", "--failure", "the card was declined"}
		},
		"unknown": func(hash, fence string) []string {
			return []string{"resolve", hash, "--fence", fence, "--outcome", "done"}
		},
		"release": func(hash, fence string) []string { return []string{"release", hash, "--fence", fence} },
	}
	told := map[string]string{}
	for name, args := range settle {
		f.checkProblem(f.postOrder(name, "x"), 502, "outcome-unknown", false)
		var line struct {
			Hash, Layer, Operation, State, Cause string
			Fence                                uint64
		}
		out := keys("list", "--layer", "nginx", "--in-doubt", "--json")
		assert.NoError(t, json.Unmarshal(out, &line), "list: %s", out)
		assert.Equal(t, line.Layer+line.Operation+line.State+line.Cause, "nginxPOST /ordersin-doubtreset", "the record")
		assert.Contains(t, string(keys("show", line.Hash)), "in-doubt", "show")
		keys(append(args(line.Hash, fmt.Sprint(line.Fence)), "--reason", "a look at the service")...)
		r := f.postOrder(name, "x")
		told[name] = fmt.Sprint(r.status, r.header.Get("Location"), r.header.Get("Idempotency-Replayed"))
		if name == "failed" {
			assert.Contains(t, r.body, "the card was declined", "the refusal")
		}
		if name == "release" {
			keys("resolve", line.Hash, "--fence", fmt.Sprint(f.fenceOf(name)), "--outcome", "done", "--reason", "x")
		}
	}
	assert.Equal(t, told, map[string]string{"done": "201/orders/7true", "failed": "409", "unknown": "409", "release": "502"}, "what repeats are told")
	f.checkStarts(5, "four first requests, and one that was let run again")
}

// fenceOf returns the fence of a key's record.
func (f *nginxFront) fenceOf(id string) retrysafe.Fence {
	f.t.Helper()
	store, _ := f.records()
	page, err := store.List(f.t.Context(), storeapi.ListRequest{Layer: "nginx", Limit: 100})
	assert.NoError(f.t, err, "list")
	for _, rec := range page.Records {
		if rec.Key.ID == id {
			return rec.Fence
		}
	}
	f.t.Fatalf("no record of %s", id)
	return 0
}
