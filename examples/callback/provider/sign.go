package main

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// makeKeys writes what the shop reads, and the private keys beside it.
func makeKeys(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	write := func(name string, text []byte) error { return os.WriteFile(filepath.Join(folder, name), text, 0o600) }
	errs := []error{
		write("wechatpay.serial", []byte("SERIAL1")), write("wechatpay.apiv3", []byte(rand.Text() + rand.Text())[:32]),
		write("stripe.secret", []byte("whsec_"+rand.Text())),
	}
	for _, name := range []string{"alipay", "wechatpay"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return err
		}
		public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		errs = append(errs, err,
			write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
			write(name+".private", x509.MarshalPKCS1PrivateKey(key)))
	}
	return errors.Join(errs...)
}

// signText returns the signature of text by a private key.
func signText(folder, name, text string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(folder, name+".private")) //nolint:gosec // the user names the folder
	if err != nil {
		return "", err
	}
	key, err := x509.ParsePKCS1PrivateKey(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return base64.StdEncoding.EncodeToString(signature), err
}

func alipayNotification(folder, order string) (string, http.Header, error) {
	now := time.Now().In(time.FixedZone("UTC+8", 8*60*60)).Format(time.DateTime)
	signature, err := signText(folder, "alipay", fmt.Sprintf("notify_id=notify-%s&notify_time=%s&out_trade_no=a%s&trade_status=TRADE_SUCCESS", order, now, order))
	form := url.Values{
		"notify_id": {"notify-" + order}, "notify_time": {now}, "out_trade_no": {"a" + order}, "trade_status": {"TRADE_SUCCESS"},
		"sign_type": {"RSA2"}, "sign": {signature},
	}
	return form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}, err
}

func wechatPay(folder, order string) (string, http.Header, error) {
	key, err := os.ReadFile(filepath.Join(folder, "wechatpay.apiv3")) //nolint:gosec // the user names the folder
	if err != nil {
		return "", nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", nil, err
	}
	nonce := []byte("nonce" + order + "-------")[:gcm.NonceSize()] // one for each plain text
	sealed := gcm.Seal(nil, nonce, fmt.Appendf(nil, `{"out_trade_no":"w%s","trade_state":"SUCCESS"}`, order), []byte("transaction"))
	body, err := json.Marshal(map[string]any{"id": "notify-" + order, "event_type": "TRANSACTION.SUCCESS", "resource": map[string]any{
		"algorithm": "AEAD_AES_256_GCM", "ciphertext": sealed, "nonce": string(nonce), "associated_data": "transaction",
	}})
	if err != nil {
		return "", nil, err
	}
	at := fmt.Sprint(time.Now().Unix())
	signature, err := signText(folder, "wechatpay", at+"\nNONCE\n"+string(body)+"\n")
	return string(body), http.Header{
		"Content-Type": {"application/json"}, "Wechatpay-Timestamp": {at}, "Wechatpay-Nonce": {"NONCE"},
		"Wechatpay-Serial": {"SERIAL1"}, "Wechatpay-Signature": {signature},
	}, err
}

func stripeNotification(folder, order string) (string, http.Header, error) {
	secret, err := os.ReadFile(filepath.Join(folder, "stripe.secret")) //nolint:gosec // the user names the folder
	body := fmt.Sprintf(`{"id":"notify-%s","type":"checkout.session.completed","data":{"object":{"client_reference_id":"s%s","payment_status":"paid"}}}`, order, order)
	at := time.Now().Unix()
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d.%s", at, body)
	return body, http.Header{"Content-Type": {"application/json"}, "Stripe-Signature": {fmt.Sprintf("t=%d,v1=%x", at, mac.Sum(nil))}}, err
}
