package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/callback"
)

// keys are what the providers show in their consoles.
type keys struct {
	alipay, wechat *rsa.PublicKey
	wechatSerial   string // of the public key
	wechatAPI      string // the APIv3 key, which encrypts
	stripe         string // the secret of the webhook
}

func readKeys(folder string) (k keys, err error) {
	read := func(name string) string {
		text, e := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the operator names the folder
		err = errors.Join(err, e)
		return strings.TrimSpace(string(text))
	}
	public := func(name string) (key *rsa.PublicKey) {
		if text := read(name); text != "" {
			var e error
			key, e = callback.ParsePublicKey(text)
			err = errors.Join(err, e)
		}
		return key
	}
	k = keys{public("alipay.pem"), public("wechatpay.pem"), read("wechatpay.serial"), read("wechatpay.apiv3"), read("stripe.secret")}
	return k, err
}

func (s *shop) addProviders(mux *http.ServeMux, k keys) {
	mux.Handle("/notify/alipay", s.handleNotification(callback.Options{
		Provider: "alipay", ID: "notify_id", Verify: callback.Alipay(k.alipay),
		// ends Alipay's retries
		Succeed: httpidem.StaticAnswer{ContentType: "text/plain", Body: []byte("success")},
	}, alipayEvent))
	mux.Handle("/notify/wechatpay", s.handleNotification(callback.Options{
		Provider: "wechatpay", ID: "/id", Verify: callback.WeChatPay(map[string]*rsa.PublicKey{k.wechatSerial: k.wechat}),
	}, wechatPayEvent([]byte(k.wechatAPI))))
	mux.Handle("/webhooks/stripe", s.handleNotification(callback.Options{
		Provider: "stripe", ID: "/id", Verify: callback.Stripe(k.stripe),
	}, stripeEvent))
}

func alipayEvent(r *http.Request) (event, error) {
	status := r.FormValue("trade_status")
	return event{r.FormValue("out_trade_no"), status == "TRADE_SUCCESS" || status == "TRADE_FINISHED"}, nil
}

func stripeEvent(r *http.Request) (event, error) {
	var n struct {
		Type string
		Data struct {
			Object struct {
				Order string `json:"client_reference_id"`
				Paid  string `json:"payment_status"`
			}
		}
	}
	err := json.NewDecoder(r.Body).Decode(&n)
	return event{n.Data.Object.Order, n.Type == "checkout.session.completed" && n.Data.Object.Paid == "paid"}, err
}

// wechatPayEvent decrypts the resource of a notification with the APIv3 key.
func wechatPayEvent(key []byte) func(r *http.Request) (event, error) {
	return func(r *http.Request) (e event, err error) {
		var n struct {
			Resource struct {
				Ciphertext []byte
				Nonce      string
				Associated string `json:"associated_data"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			return e, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return e, err
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return e, err
		}
		if len(n.Resource.Nonce) != gcm.NonceSize() {
			return e, errors.New("the nonce has another length")
		}
		text, err := gcm.Open(nil, []byte(n.Resource.Nonce), n.Resource.Ciphertext, []byte(n.Resource.Associated))
		if err != nil {
			return e, err
		}
		var payment struct {
			Order string `json:"out_trade_no"`
			State string `json:"trade_state"`
		}
		err = json.Unmarshal(text, &payment)
		return event{payment.Order, payment.State == "SUCCESS"}, err
	}
}
