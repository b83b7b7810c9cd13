package callback

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Alipay checks the parameter sign of a notification of Alipay with sign_type RSA2: SHA-256 with
// RSA over all other parameters except sign_type, decoded, sorted by name and joined as k=v&k=v.
// The key is Alipay's public key, not the merchant's. notify_time, in China's time zone, may be
// [AlipayAge] ago: keep events for longer than that (Policy.Retention), so that an old notification
// is always a duplicate.
//
// The joined text does not say where a value ends. A value that contains what looks like another
// parameter, such as "gift&total_amount=1", is refused, no matter who wrote it: do not put
// such texts into subject, body or passback_params of an order.
func Alipay(key *rsa.PublicKey) Verifier { return alipayAt(time.Now, key) }

// AlipayAge is how old a notification may be. Alipay retries for a little more than a day.
const AlipayAge = 7 * 24 * time.Hour

// alipayAt is Alipay with a clock.
func alipayAt(now func() time.Time, key *rsa.PublicKey) Verifier {
	if key == nil {
		panic("callback: Alipay needs the public key of Alipay; ParsePublicKey reads it")
	}
	return func(_ *http.Request, body []byte) error {
		fields, err := url.ParseQuery(string(body))
		if err != nil {
			return errors.New("callback: the body is no form")
		}
		sign, kind := fields["sign"], fields["sign_type"]
		if len(sign) != 1 || len(kind) != 1 || kind[0] != "RSA2" {
			return errors.New("callback: the form has not one sign, and RSA2 as its sign_type")
		}
		delete(fields, "sign")
		delete(fields, "sign_type")
		names := slices.Sorted(maps.Keys(fields))
		pairs := make([]string, len(names))
		for i, name := range names {
			if len(fields[name]) != 1 || hidesParameter(name, fields[name][0]) {
				return errors.New("callback: a parameter is there more than once, or hides another one")
			}
			pairs[i] = name + "=" + fields[name][0]
		}
		if err := verifyRSA(key, []byte(strings.Join(pairs, "&")), sign[0]); err != nil {
			return err
		}
		return alipayTime(now(), fields.Get("notify_time"))
	}
}

// china is the time zone of Alipay's times.
var china = time.FixedZone("UTC+8", 8*60*60)

// alipayTime checks the age of a notification.
func alipayTime(now time.Time, text string) error {
	at, err := time.ParseInLocation(time.DateTime, text, china)
	switch {
	case err != nil:
		return errors.New("callback: notify_time is missing, or no time as in 2026-03-01 12:00:00")
	case now.Sub(at) > AlipayAge:
		return fmt.Errorf("callback: the notification is older than %v", AlipayAge)
	case at.Sub(now) > Tolerance:
		return errors.New("callback: the notification is from the future; look at this machine's clock")
	}
	return nil
}

// hidesParameter reports whether the signed text can be read with another parameter inside a value.
// notify_id=1 and notify_time=2 have the same signature as the one value notify_id=1&notify_time=2,
// which would be an event with another id. The same is true of a free text that its writer has
// ended with &notify_id=2: an attacker who moves the real notify_id into another value has a
// notification with a chosen id. Ids, states and amounts never contain an ampersand.
func hidesParameter(name, value string) bool {
	if strings.ContainsAny(name, "=&") || parameterWithin.MatchString(value) {
		return true
	}
	for _, end := range []string{"_id", "_no", "_status", "_amount"} {
		if strings.HasSuffix(name, end) && strings.Contains(value, "&") {
			return true
		}
	}
	return false
}

// parameterWithin matches what looks like a parameter after another one.
var parameterWithin = regexp.MustCompile(`&[^&=\s]+=`)

// WeChatPay checks a notification of WeChat Pay, API v3. Wechatpay-Signature is SHA-256 with RSA
// over Wechatpay-Timestamp, Wechatpay-Nonce and the body, each followed by a line feed. keys are
// the public keys of the platform by their serial number (Wechatpay-Serial); give several while one
// replaces another. The time may be [Tolerance] from now. The resource in the body is encrypted;
// the handler must decrypt it.
func WeChatPay(keys map[string]*rsa.PublicKey) Verifier { return weChatPayAt(time.Now, keys) }

// weChatPayAt is WeChatPay with a clock.
func weChatPayAt(now func() time.Time, keys map[string]*rsa.PublicKey) Verifier {
	known := make(map[string]*rsa.PublicKey, len(keys))
	for serial, key := range keys {
		if serial == "" || key == nil {
			panic("callback: WeChatPay needs public keys by their serial numbers; ParsePublicKey reads them")
		}
		known[serial] = key
	}
	if len(known) == 0 {
		panic("callback: WeChatPay needs a public key of the platform")
	}
	return func(r *http.Request, body []byte) error {
		var values [4]string
		for i, name := range []string{"Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Signature", "Wechatpay-Serial"} {
			var err error
			if values[i], err = singleLine(r, name); err != nil {
				return err
			}
		}
		key := known[values[3]]
		if key == nil {
			return errors.New("callback: the signature is of a serial number that is not known; fetch the platform's keys again")
		}
		message := bytes.Join([][]byte{[]byte(values[0]), []byte(values[1]), body, nil}, []byte("\n"))
		if err := verifyRSA(key, message, values[2]); err != nil {
			return err
		}
		return inTime(now, values[0])
	}
}

func verifyRSA(key *rsa.PublicKey, message []byte, signature string) error {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return errors.New("callback: the signature is no base64")
	}
	digest := sha256.Sum256(message)
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], raw) != nil {
		return errors.New("callback: the signature is not that of the provider's key over this notification")
	}
	return nil
}

// ParsePublicKey parses an RSA public key as providers give it: PEM (a key or a certificate), or
// only the base64 inside it. At least 2048 bits.
func ParsePublicKey(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	var der []byte
	if block != nil {
		der = block.Bytes
	} else {
		var err error
		if der, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, errors.New("callback: the key is neither PEM nor base64")
		}
	}
	var key any
	cert, err := x509.ParseCertificate(der)
	if err == nil {
		key = cert.PublicKey
	} else if key, err = x509.ParsePKIXPublicKey(der); err != nil {
		if key, err = x509.ParsePKCS1PublicKey(der); err != nil {
			return nil, errors.New("callback: this is no RSA public key")
		}
	}
	public, ok := key.(*rsa.PublicKey)
	switch {
	case !ok:
		return nil, errors.New("callback: the key is not one of RSA")
	case public.N.BitLen() < 2048:
		return nil, errors.New("callback: the key has less than 2048 bits")
	}
	return public, nil
}
