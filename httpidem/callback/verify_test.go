package callback_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/callback"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at() time.Time { return noon }

func hexMAC(secret, message string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(message))
	return hex.EncodeToString(m.Sum(nil))
}

func stripeLine(secret, body string, when time.Time) string {
	return fmt.Sprintf("t=%d,v1=%s,v0=00", when.Unix(), hexMAC(secret, fmt.Sprintf("%d.%s", when.Unix(), body)))
}

func TestStripe(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1"}`
	verify := callback.StripeAt(at, "new", "old")
	check := func(body string, lines ...string) error {
		r := httptest.NewRequest("POST", "/", nil)
		for _, l := range lines {
			r.Header.Add("Stripe-Signature", l)
		}
		return verify(r, []byte(body))
	}
	good := stripeLine("new", body, noon)
	for name, line := range map[string]string{
		"the new secret": good, "the old secret": stripeLine("old", body, noon), "late": stripeLine("new", body, noon.Add(-callback.Tolerance)),
		"early": stripeLine("new", body, noon.Add(callback.Tolerance)), "several": strings.Replace(good, "v1=", "v1=00,v1=zz,v1=", 1), "spaces": strings.ReplaceAll(good, ",", ", "),
	} {
		assert.NoError(t, check(body, line), "%s", name)
	}
	for name, lines := range map[string][]string{
		"none": nil, "empty": {""}, "twice": {good, good}, "another secret": {stripeLine("other", body, noon)}, "no secret": {stripeLine("", body, noon)},
		"too late": {stripeLine("new", body, noon.Add(-callback.Tolerance-time.Second))}, "too early": {stripeLine("new", body, noon.Add(callback.Tolerance+time.Second))},
		"another time": {strings.Replace(good, "t=17", "t=16", 1)}, "a second time": {good + ",t=1"}, "no time": {good[strings.Index(good, ",")+1:]},
		"v0 alone": {strings.Replace(good, "v1", "v0", 1)}, "many": {good + strings.Repeat(",v1=00", 9)}, "nonsense": {"t=,v1="},
	} {
		assert.True(t, check(body, lines...) != nil, "%s is refused", name)
	}
	assert.True(t, check(body+" ", good) != nil, "another body is refused")
}

func TestHMAC(t *testing.T) {
	t.Parallel()
	verify := callback.HMAC("X-Hub-Signature-256", "s1", "s2")
	for line, ok := range map[string]bool{
		"sha256=" + hexMAC("s1", "b"): true, hexMAC("s2", "b"): true, hexMAC("s3", "b"): false, hexMAC("s1", "c"): false, "": false, "sha256=": false, "zz": false,
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("X-Hub-Signature-256", line)
		assert.Equal(t, verify(r, []byte("b")) == nil, ok, "%q", line)
	}
}

// rsaKeys are generated once, since that takes a while.
var rsaKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return keys
})

func signRSA(key *rsa.PrivateKey, message string) string {
	sum := sha256.Sum256([]byte(message))
	raw, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestAlipay(t *testing.T) {
	t.Parallel()
	keys := rsaKeys()
	now := time.Date(2026, 3, 1, 4, 0, 10, 0, time.UTC) // ten seconds after the notification
	verify := callback.AlipayAt(func() time.Time { return now }, &keys[0].PublicKey)
	form := func(sign string, pairs ...string) string {
		v := url.Values{"sign": {sign}, "sign_type": {"RSA2"}}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	pairs := []string{"notify_id", "n1", "notify_time", "2026-03-01 12:00:00", "body", "", "subject", "tea & a=b", "trade_status", "TRADE_SUCCESS"}
	const message = "body=&notify_id=n1&notify_time=2026-03-01 12:00:00&subject=tea & a=b&trade_status=TRADE_SUCCESS"
	good := signRSA(keys[0], message)
	check := func(body string) error { return verify(httptest.NewRequest("POST", "/", nil), []byte(body)) }
	assert.NoError(t, check(form(good, pairs...)), "as it was signed")
	sorted := func(pairs ...string) string { // signs as Alipay would
		joined := make([]string, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			joined = append(joined, pairs[i]+"="+pairs[i+1])
		}
		slices.Sort(joined)
		return form(signRSA(keys[0], strings.Join(joined, "&")), pairs...)
	}
	assert.NoError(t, check(sorted("notify_id", "n1", "notify_time", "2026-03-01 12:00:00", "passback_params", "uid=5 & plan = vip&more")), "a free text with an ampersand")
	for text, want := range map[string]string{
		"2026-02-22 12:00:11": "", "2026-02-22 12:00:09": "older", "2026-03-01 12:05:10": "", "2026-03-01 12:05:11": "future", "": "no time", "now": "no time",
	} {
		err := check(sorted("notify_id", "n1", "notify_time", text))
		assert.True(t, (err == nil) == (want == "") && (want == "" || strings.Contains(err.Error(), want)), "notify_time %q: %v", text, err)
	}
	assert.True(t, check(sorted("notify_id", "n1")) != nil, "without a time")
	// A buyer can influence a free text. With the signature over it, the text could be split into
	// parameters, and the real parameters be hidden.
	bought := []string{
		"body", "gift&notify_id=FORGED&out_trade_no=1&total_amount=9999&zz=", "notify_id", "n1", "notify_time", "2026-03-01 12:00:00",
		"out_trade_no", "7", "total_amount", "0.01",
	}
	assert.True(t, check(sorted(bought...)) != nil, "a free text that reads like parameters")
	signed := signRSA(keys[0], "body=gift&notify_id=FORGED&notify_time=2026-03-01 12:00:00&out_trade_no=1&zz=&notify_id=n1&out_trade_no=7")
	assert.True(t, check(form(signed, "body", "gift", "notify_id", "FORGED", "notify_time", "2026-03-01 12:00:00", "out_trade_no", "1", "zz", "&notify_id=n1&out_trade_no=7")) != nil,
		"the same bytes as other parameters")
	change := func(i int, to string) []string {
		other := append([]string(nil), pairs...)
		other[i] = to
		return other
	}
	for name, body := range map[string]string{
		"another key":       form(signRSA(keys[1], message), pairs...),
		"another status":    form(good, change(9, "TRADE_CLOSED")...),
		"another id":        form(good, change(1, "n2")...),
		"a parameter more":  form(good, append(change(0, "notify_id"), "x", "y")...),
		"a parameter less":  form(good, pairs[:8]...),
		"a parameter twice": form(good, append(change(0, "notify_id"), "notify_id", "n1")...),
		"two signatures":    form(good, append(change(0, "notify_id"), "sign", good)...),
		"another kind":      strings.Replace(form(good, pairs...), "RSA2", "RSA", 1),
		"no kind":           strings.Replace(form(good, pairs...), "sign_type", "sign_typo", 1),
		"no signature":      form("", pairs...),
		"no base64":         form("%%", pairs...),
		"no form":           "%zz",
		"empty":             "",
		// The same bytes were signed; if accepted, it would be an event with another id.
		"a hidden parameter": form(good, "body", "", "notify_id", "n1&notify_time=2026-03-01 12:00:00", "subject", "tea & a=b", "trade_status", "TRADE_SUCCESS"),
		"a hidden name":      form(good, "body", "", "notify_id", "n1", "notify_time", "2026-03-01 12:00:00", "subject=tea & a", "b", "trade_status", "TRADE_SUCCESS"),
	} {
		assert.True(t, check(body) != nil, "%s is refused", name)
	}
}

func TestWeChatPay(t *testing.T) {
	t.Parallel()
	keys := rsaKeys()
	verify := callback.WeChatPayAt(at, map[string]*rsa.PublicKey{"S1": &keys[0].PublicKey, "S2": &keys[1].PublicKey})
	const body = `{"id":"e1"}`
	check := func(body string, key *rsa.PrivateKey, serial string, when time.Time, change func(map[string][]string)) error {
		r := httptest.NewRequest("POST", "/", nil)
		stamp := fmt.Sprint(when.Unix())
		for name, value := range map[string]string{
			"Timestamp": stamp, "Nonce": "abc", "Serial": serial, "Signature": signRSA(key, stamp+"\nabc\n{\"id\":\"e1\"}\n"),
		} {
			r.Header.Set("Wechatpay-"+name, value)
		}
		if change != nil {
			change(r.Header)
		}
		return verify(r, []byte(body))
	}
	assert.NoError(t, check(body, keys[0], "S1", noon, nil), "the first key")
	assert.NoError(t, check(body, keys[1], "S2", noon.Add(-callback.Tolerance), nil), "the second key")
	for name, err := range map[string]error{
		"another body":   check(body+" ", keys[0], "S1", noon, nil),
		"another key":    check(body, keys[1], "S1", noon, nil),
		"unknown serial": check(body, keys[0], "S3", noon, nil),
		"too late":       check(body, keys[0], "S1", noon.Add(-callback.Tolerance-time.Second), nil),
		"another time":   check(body, keys[0], "S1", noon, func(h map[string][]string) { h["Wechatpay-Timestamp"] = []string{fmt.Sprint(noon.Unix() + 1)} }),
		"another nonce":  check(body, keys[0], "S1", noon, func(h map[string][]string) { h["Wechatpay-Nonce"] = []string{"abd"} }),
		"no nonce":       check(body, keys[0], "S1", noon, func(h map[string][]string) { delete(h, "Wechatpay-Nonce") }),
		"two signatures": check(body, keys[0], "S1", noon, func(h map[string][]string) { h["Wechatpay-Signature"] = append(h["Wechatpay-Signature"], "x") }),
		"no base64":      check(body, keys[0], "S1", noon, func(h map[string][]string) { h["Wechatpay-Signature"] = []string{"%"} }),
	} {
		assert.True(t, err != nil, "%s is refused", name)
	}
}

func TestParsePublicKey(t *testing.T) {
	t.Parallel()
	key := &rsaKeys()[0].PublicKey
	der, err := x509.MarshalPKIXPublicKey(key)
	assert.NoError(t, err, "marshal")
	text := base64.StdEncoding.EncodeToString(der)
	for name, in := range map[string]string{
		"PEM": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "base64": text, "base64 in lines": text[:64] + "\n" + text[64:],
		"PKCS 1": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(key)})),
	} {
		got, err := callback.ParsePublicKey(in)
		assert.NoError(t, err, "%s", name)
		assert.True(t, got.Equal(key), "%s: the key", name)
	}
	small, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).Rsh(key.N, 1500), E: 65537})
	assert.NoError(t, err, "marshal")
	for _, in := range []string{"", "nonsense", "AAAA", base64.StdEncoding.EncodeToString(small)} {
		_, err := callback.ParsePublicKey(in)
		assert.True(t, err != nil, "%.10q is refused", in)
	}
}

// FuzzStripe checks that nothing is accepted that the secret has not signed, whatever surrounds it.
func FuzzStripe(f *testing.F) {
	f.Add(stripeLine("secret", "b", noon), "b")
	f.Add("t=1,v1=00,v1=,t=", "{}")
	verify := callback.StripeAt(at, "secret")
	f.Fuzz(func(t *testing.T, line, body string) {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header["Stripe-Signature"] = []string{line}
		if verify(r, []byte(body)) == nil {
			_, stamp, _ := strings.Cut(line, "t=")
			stamp, _, _ = strings.Cut(stamp, ",")
			assert.True(t, strings.Contains(strings.ToLower(line), hexMAC("secret", strings.TrimSpace(stamp)+"."+body)), "taken: %q", line)
		}
	})
}
