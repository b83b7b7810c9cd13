package callback_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/callback"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func quiet() *retrysafe.Engine {
	return retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
}

// An event of Stripe that is sent three times, because its answers were lost.
func ExampleNew() {
	const secret = "whsec_of_the_endpoint"
	c := callback.New(quiet(), &callback.Options{
		Provider: "stripe", ID: "/id", Verify: callback.Stripe(secret),
		// in a real shop the work is one DoTx
		Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
	})
	h := c.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("the order is paid") }))

	const event = `{"id":"evt_1","type":"checkout.session.completed"}`
	for range 3 {
		r := httptest.NewRequest("POST", "/webhooks/stripe", strings.NewReader(event))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Stripe-Signature", stripeLine(secret, event, time.Now()))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "repeat:", w.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// the order is paid
	// 200 repeat: false
	// 200 repeat: true
	// 200 repeat: true
}

// A notification of Alipay, which stops when it gets "success".
func ExampleAlipay() {
	key := rsaKeys()[0]
	c := callback.New(quiet(), &callback.Options{
		// ParsePublicKey parses the key that Alipay shows
		Provider: "alipay", ID: "notify_id", Verify: callback.Alipay(&key.PublicKey),
		Succeed: httpidem.StaticAnswer{ContentType: "text/plain", Body: []byte("success")},
		Policy:  retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
	})
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("paid:", r.FormValue("out_trade_no"))
		_, _ = w.Write([]byte("success"))
	}))

	sent := time.Now().In(time.FixedZone("UTC+8", 8*60*60)).Format(time.DateTime)
	form := url.Values{"notify_id": {"n1"}, "notify_time": {sent}, "out_trade_no": {"order-7"}, "sign_type": {"RSA2"}}
	form.Set("sign", signRSA(key, "notify_id=n1&notify_time="+sent+"&out_trade_no=order-7"))
	for range 2 {
		r := httptest.NewRequest("POST", "/notify/alipay", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Body)
	}
	// Output:
	// paid: order-7
	// success
	// success
}
