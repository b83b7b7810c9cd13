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

// setOffline takes the network away from a tab, or restores it.
func (b *tab) setOffline(off bool) {
	b.t.Helper()
	rule := &network.Conditions{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}
	_, err := chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{rule}})
	assert.NoError(b.t, err, "network off: %v", off)
	// The network is there some time after the call. The event online must not come before it.
	if !off {
		evalScript[bool](b, `(async () => { for (;;) { try { return (await fetch("/retrysafe.js", { cache: "no-store" })).ok } catch { await new Promise((go) => setTimeout(go, 10)) } } })()`)
	}
	state := network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}
	_, err = chromedp.Call(b.ctx, network.OverrideNetworkState, state)
	assert.NoError(b.t, err, "state off: %v", off)
}

// TestOffline tests that a request that cannot be sent waits for the network, does not count as a
// try, and is sent when there is a network.
func TestOffline(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.openPage(t)
	l.setAnswers(cutConnection, answerStatus(200))
	b.setOffline(true)
	assert.True(t, !evalScript[bool](b, "navigator.onLine"), "the browser is offline")
	evalScript[bool](b, `window.told = "", window.got = "", rs.fetchOnce("pay", "/do", { body: "tea" }, { max: 2, minWait: 1, onRetry: (o) => { told += o.n + (o.offline ? " offline " : " online ") } })
		.then((r) => { got = String(r.status) }, (e) => { got = String(e) }), true`)
	b.awaitScript("told", "1 offline")
	assert.Equal(t, len(l.requestsSince()), 0, "requests while offline")
	assert.True(t, evalScript[bool](b, `rs.pending("pay")`), "pending")
	b.setOffline(false)
	b.awaitScript("got", "200")
	assert.Equal(t, evalScript[string](b, "told"), "1 offline 1 online ", "further tries")
	l.sameKey(t, 2)

	b.setOffline(true)
	got := evalScript[string](b, fetchCall("never", "/do", "", "{ total: 50 }"))
	assert.Contains(t, got, "no answer came", "offline for longer than all tries may take")
	b.setOffline(false)
}

// TestReloadWhileItIsSent tests that the key outlives the page: the service has acted, the page is
// reloaded, and the next press gets the answer.
func TestReloadWhileItIsSent(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.openPage(t)
	gate, acted := make(chan struct{}), make(chan struct{})
	service := guardService(t, nil, func(w http.ResponseWriter, _ *http.Request, n int) {
		close(acted)
		<-gate
		fmt.Fprint(w, "order ", n)
	})
	l.setAnswers(service)
	evalScript[bool](b, fetchCall("pay", "/do", "", "")+", true")
	<-acted
	b.runActions("reload", chromedp.Reload())
	b.awaitReady()
	close(gate)
	assert.True(t, evalScript[bool](b, `rs.pending("pay")`), "pending after the reload")
	assert.Equal(t, evalScript[string](b, fetchCall("pay", "/do", "", "{ minWait: 100 }")), "200 order 1", "the next press")
	l.sameKey(t, len(l.requestsSince()))
	assert.True(t, !evalScript[bool](b, `rs.pending("pay")`), "pending after the answer")
}

// TestTabs tests that each tab has its own actions, unless the application makes the key.
func TestTabs(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := l.openPage(t)
	l.setAnswers(cutConnection)
	other := b.openSecondTab(l.url)
	other.awaitReady()
	evalScript[string](b, fetchCall("pay", "/do", "", "{ max: 1 }"))
	assert.True(t, !evalScript[bool](other, `rs.pending("pay")`), "pending in the other tab")
	evalScript[string](other, fetchCall("pay", "/do", "", "{ max: 1 }"))
	all := l.requestsSince()
	assert.NotEqual(t, all[0].key, all[1].key, "the key of the other tab")
	l.setAnswers(cutConnection)
	evalScript[string](b, fetchCall("pay", "/do", "", "{ max: 1, key: 'order-17' }"))
	evalScript[string](other, fetchCall("pay", "/do", "", "{ max: 1, key: 'order-17' }"))
	all = l.requestsSince()
	assert.Equal(t, all[0], all[1], "the application's key in both")
}

// TestOtherOrigin tests that headers that the other origin does not expose are not needed: the
// problem's code is enough.
func TestOtherOrigin(t *testing.T) {
	t.Parallel()
	l, page := openLab(t), openLab(t)
	b := page.openPage(t)
	const hidden = `"Retry-After"`
	l.setAnswers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		answerProblem("in-progress")(w, r)
	}, answerStatus(200))
	got := evalScript[string](b, fetchCall("pay", l.url+"/do", "", `{ onRetry: (o) => { window.seen = String(o.res.headers.get(`+hidden+`)) } }`))
	assert.Equal(t, got, "200 status 200", "answer")
	assert.Equal(t, evalScript[string](b, "seen"), "null", "Retry-After, as the page sees it")
	l.sameKey(t, 2)
}

// TestPlainHTTP tests that keys and contents are told apart on a site without TLS too, which has no
// crypto.subtle.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	b := openTab(t, strings.Replace(l.url, "127.0.0.1", "shop.test", 1))
	b.awaitReady()
	assert.True(t, evalScript[bool](b, "!isSecureContext && !crypto.subtle"), "the page is not secure")
	l.setAnswers(cutConnection, answerStatus(200))
	assert.Equal(t, evalScript[string](b, fetchCall("pay", "/do", "", "")), "200 status 200", "answer")
	l.sameKey(t, 2)
	l.setAnswers(cutConnection)
	evalScript[string](b, fetchCall("pay", "/do", `{ body: "10" }`, "{ max: 1 }"))
	evalScript[string](b, fetchCall("pay", "/do", `{ body: "20" }`, "{ max: 1 }"))
	evalScript[string](b, fetchCall("pay", "/do", `{ body: "10" }`, "{ max: 1 }"))
	all := l.requestsSince()
	assert.Equal(t, all[0].key, all[2].key, "the same content")
	assert.NotEqual(t, all[0].key, all[1].key, "another content")
}
