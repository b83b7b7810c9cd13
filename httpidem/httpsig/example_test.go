package httpsig_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A shop pays at a bank. The bank knows the shop's public key. An attacker who copies the request
// can neither have it done again nor learn its answer. The shop's own retry gets the first answer.
func Example() {
	public, private, _ := ed25519.GenerateKey(rand.Reader)

	// The bank.
	verifying, err := httpsig.PublicKey(public)
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(context.Background())
	signed := httpsig.New(&httpsig.Options{
		Keys:      httpsig.Keyring{"shop": {verifying}},
		Nonces:    httpsig.NoncesOn(engine),
		Require:   []string{"idempotency-key"},
		OnRefused: func(_ *http.Request, why *httpsig.Refusal) { fmt.Println("log:", why) },
	})
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpsig.Tenant, Key: httpidem.Required})
	payments := 0
	copies := make(chan []byte, 1)
	pay := signed.Handler(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payments++
		caller, _ := httpsig.CallerFrom(r.Context())
		_, _ = fmt.Fprintf(w, "payment %d for %s", payments, caller.KeyID)
	})))
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an attacker in between makes a copy
		r.Body = io.NopCloser(bytes.NewReader(body))
		c := r.Clone(context.Background())
		c.Body = io.NopCloser(bytes.NewReader(body))
		pay.ServeHTTP(w, r)
		again := httptest.NewRecorder()
		pay.ServeHTTP(again, c)
		copies <- again.Body.Bytes()
	}))
	defer bank.Close()

	// The shop.
	signing, err := httpsig.PrivateKey(private)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &httpidem.Transport{
		Base: &httpsig.Transport{Signer: &httpsig.Signer{KeyID: "shop", Key: signing}},
	}}
	for range 2 {
		ctx := httpidem.ContextWithKey(context.Background(), "order-7-payment")
		r, _ := http.NewRequestWithContext(ctx, "POST", bank.URL+"/payments", strings.NewReader("42 EUR"))
		resp, err := client.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%d %s\n", resp.StatusCode, answer)
		<-copies
	}
	// Output:
	// log: httpsig: nonce-used: this nonce was used before
	// 200 payment 1 for shop
	// log: httpsig: nonce-used: this nonce was used before
	// 200 payment 1 for shop
}

// The fields that Sign adds to a request.
func ExampleSigner_Sign() {
	key, err := httpsig.SharedKey([]byte("32 random bytes that both sides know"))
	if err != nil {
		fmt.Println(err)
		return
	}
	signer := &httpsig.Signer{KeyID: "shop", Key: key}
	r, _ := http.NewRequest("POST", "https://bank.example/payments", strings.NewReader("42 EUR"))
	r.Header.Set("Idempotency-Key", "order-7-payment")
	if err := signer.Sign(r); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Header.Get("Content-Digest"))
	covered, _, _ := strings.Cut(r.Header.Get("Signature-Input"), ";")
	fmt.Println(covered)
	// Output:
	// sha-256=:z5OLhDVy95BLk+yIzWqn3oGytguUwtRbUEfIS0h0k3w=:
	// retrysafe=("@method" "@authority" "@path" "@query" "content-digest" "idempotency-key")
}

// Keys are rotated without a moment in which one side has the wrong key: give the verifier both,
// and then the client the new one.
func ExampleKey() {
	before, _ := httpsig.SharedKey([]byte("32 random bytes that both sides know"))
	after, _ := httpsig.SharedKey([]byte("32 other random bytes that both have"))
	ring := httpsig.Keyring{"shop": {before, after}}
	fmt.Println(ring.Validate(), ring["shop"])
	// Output:
	// <nil> [httpsig.Key(hmac-sha256) httpsig.Key(hmac-sha256)]
}

// Without net/http's handlers, for a proxy or a framework: Accept returns the request to continue
// with.
func ExampleVerifier_Accept() {
	key, _ := httpsig.SharedKey([]byte("32 random bytes that both sides know"))
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(context.Background())
	v := httpsig.New(&httpsig.Options{Keys: httpsig.Keyring{"shop": {key}}, Nonces: httpsig.NoncesOn(engine)})

	r := httptest.NewRequest(http.MethodGet, "/accounts", http.NoBody)
	_, err := v.Accept(r)
	fmt.Println(err)
	w := httptest.NewRecorder()
	v.Refuse(w, r, err)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output:
	// httpsig: signature-missing: no signature has the tag that is looked for
	// 401 application/problem+json
}

// Keys from a file, on a route that is guarded after the signature is verified.
func ExampleReadKeyring() {
	file := strings.NewReader("shop ed25519 MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs= principal=shop-7\n")
	keys, err := httpsig.ReadKeyring(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(context.Background())
	pay := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("paid") })
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpsig.Tenant})
	mux := http.NewServeMux()

	signed := httpsig.New(&httpsig.Options{Keys: keys, Nonces: httpsig.NoncesOn(engine)})
	mux.Handle("POST /payments", signed.Handler(idem.Handler(pay)))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/payments", http.NoBody))
	fmt.Println("not signed:", w.Code)
	// Output:
	// not signed: 401
}
