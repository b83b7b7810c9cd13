package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// offline takes the network away from a tab, or restores it.
func (b *tab) offline(off bool) {
	b.t.Helper()
	rule := &network.Conditions{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}
	_, err := chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{rule}})
	assert.NoError(b.t, err, "network off: %v", off)
	state := network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}
	_, err = chromedp.Call(b.ctx, network.OverrideNetworkState, state)
	assert.NoError(b.t, err, "state off: %v", off)
}

// TestOffline tests that a request that cannot be sent waits for the network, does not count as a
// try, and is sent when there is a network.
func TestOffline(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.open(t)
	l.answers(drop, status(200))
	b.offline(true)
	assert.True(t, !eval[bool](b, "navigator.onLine"), "the browser is offline")
	eval[bool](b, `window.told = "", window.got = "", rs.fetchOnce("pay", "/do", { body: "tea" }, { max: 2, minWait: 1, onRetry: (o) => { told += o.n + (o.offline ? " offline " : " online ") } })
		.then((r) => { got = String(r.status) }, (e) => { got = String(e) }), true`)
	b.until("told", "1 offline")
	assert.Equal(t, len(l.came()), 0, "requests while offline")
	assert.True(t, eval[bool](b, `rs.pending("pay")`), "pending")
	b.offline(false)
	b.until("got", "200")
	assert.Equal(t, eval[string](b, "told"), "1 offline 1 online ", "further tries")
	l.sameKey(t, 2)

	b.offline(true)
	got := eval[string](b, call("never", "/do", "", "{ total: 50 }"))
	assert.Contains(t, got, "no answer came", "offline for longer than all tries may take")
	b.offline(false)
}

// TestReloadWhileItIsSent tests that the key outlives the page: the service has acted, the page is
// reloaded, and the next press gets the answer.
func TestReloadWhileItIsSent(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.open(t)
	gate, acted := make(chan struct{}), make(chan struct{})
	service := guarded(t, nil, func(w http.ResponseWriter, _ *http.Request, n int) {
		close(acted)
		<-gate
		fmt.Fprint(w, "order ", n)
	})
	l.answers(service)
	eval[bool](b, call("pay", "/do", "", "")+", true")
	<-acted
	b.do("reload", chromedp.Reload())
	b.ready()
	close(gate)
	assert.True(t, eval[bool](b, `rs.pending("pay")`), "pending after the reload")
	assert.Equal(t, eval[string](b, call("pay", "/do", "", "{ minWait: 100 }")), "200 order 1", "the next press")
	l.sameKey(t, len(l.came()))
	assert.True(t, !eval[bool](b, `rs.pending("pay")`), "pending after the answer")
}

// TestTabs tests that each tab has its own actions, unless the application makes the key.
func TestTabs(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.open(t)
	l.answers(drop)
	other := b.another(l.url)
	other.ready()
	eval[string](b, call("pay", "/do", "", "{ max: 1 }"))
	assert.True(t, !eval[bool](other, `rs.pending("pay")`), "pending in the other tab")
	eval[string](other, call("pay", "/do", "", "{ max: 1 }"))
	all := l.came()
	assert.NotEqual(t, all[0].key, all[1].key, "the key of the other tab")
	l.answers(drop)
	eval[string](b, call("pay", "/do", "", "{ max: 1, key: 'order-17' }"))
	eval[string](other, call("pay", "/do", "", "{ max: 1, key: 'order-17' }"))
	all = l.came()
	assert.Equal(t, all[0], all[1], "the application's key in both")
}

// TestOtherOrigin tests that headers that the other origin does not expose are not needed: the
// problem's code is enough.
func TestOtherOrigin(t *testing.T) {
	t.Parallel()
	l, page := openLab(t), openLab(t)
	b := page.open(t)
	const hidden = `"Retry-After"`
	l.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		problem("in-progress")(w, r)
	}, status(200))
	got := eval[string](b, call("pay", l.url+"/do", "", `{ onRetry: (o) => { window.seen = String(o.res.headers.get(`+hidden+`)) } }`))
	assert.Equal(t, got, "200 status 200", "answer")
	assert.Equal(t, eval[string](b, "seen"), "null", "Retry-After, as the page sees it")
	l.sameKey(t, 2)
}

// TestPlainHTTP tests that keys and contents are told apart on a site without TLS too, which has no
// crypto.subtle.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := openTab(t, strings.Replace(l.url, "127.0.0.1", "shop.test", 1))
	b.ready()
	assert.True(t, eval[bool](b, "!isSecureContext && !crypto.subtle"), "the page is not secure")
	l.answers(drop, status(200))
	assert.Equal(t, eval[string](b, call("pay", "/do", "", "")), "200 status 200", "answer")
	l.sameKey(t, 2)
	l.answers(drop)
	eval[string](b, call("pay", "/do", `{ body: "10" }`, "{ max: 1 }"))
	eval[string](b, call("pay", "/do", `{ body: "20" }`, "{ max: 1 }"))
	eval[string](b, call("pay", "/do", `{ body: "10" }`, "{ max: 1 }"))
	all := l.came()
	assert.Equal(t, all[0].key, all[2].key, "the same content")
	assert.NotEqual(t, all[0].key, all[1].key, "another content")
}
