package httpidem

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// Missing says what a request gets that lacks one of RequestOptions.Fields.
type Missing uint8

// The values of Missing.
const (
	// MissingRefuse refuses it: 400 key-not-made. It is the default.
	MissingRefuse Missing = iota + 1
	// MissingPass passes it to the handler without a guard, so that each copy of it runs. It is for
	// senders of events whose tests and handshakes have no id, such as the url_verification of
	// Slack. A request in which the field can be read in two ways is still refused.
	MissingPass
)

// DefaultWindow is how long a key of the mode Params counts after its request has ended, unless
// Policy.Retention says otherwise. It is long enough for a double click and for a client that
// retries by itself, and short enough for a second order of the same thing.
const DefaultWindow = 10 * time.Second

// madeMark begins the id of a key that was derived here. No client can send it: a client's key is
// printable.
const madeMark = "\x01"

// maker derives keys for requests.
type maker struct {
	fields []reqfield.Field // what makes two requests the same; empty: everything that counts
	rule   *fingerprint.Compiled
	mark   uint8 // keeps sums of different rules from being compared
	any    bool  // only the fields count
	pass   bool  // a request without one of the fields is not guarded
}

// forwarded names the key that inner services get in place of a derived one.
const forwarded = "retrysafe forwarded"

// Derived reports whether the keys of a mode are derived from requests instead of sent by clients.
func (m KeyMode) Derived() bool { return m == Params || m == Fields }

// maker compiles rule and fields; it returns nil if clients send the keys.
func (o *Options) maker() (*maker, error) {
	if !o.Key.Derived() {
		return nil, nil //nolint:nilnil // no key is derived
	}
	k := &maker{any: o.Request.AnyPayload, pass: o.Request.Missing == MissingPass}
	for _, text := range o.Request.Fields {
		f, err := reqfield.Parse(text)
		if err != nil {
			return nil, err
		}
		k.fields = append(k.fields, f)
	}
	slices.SortFunc(k.fields, func(a, b reqfield.Field) int { return strings.Compare(a.Name(), b.Name()) })
	var err error
	if k.rule, err = o.compiled(); err != nil {
		return nil, err
	}
	k.mark = markOf(k.rule.ID())
	return k, nil
}

// validateMade reports what is wrong with the rule, the fields or the mode.
func (o *Options) validateMade(wrong func(format string, args ...any)) {
	switch {
	case o.Key == Fields && len(o.Request.Fields) == 0:
		wrong("Key is Fields, and Fields names none; name what makes a request the same, for example $.poll")
	case o.Key == Fields && o.Request.Operation == nil:
		wrong("Key is Fields, and Operation names no action: a path has many spellings, and each would be an operation of its own")
	case o.Key == Fields && len(o.Request.Rule.Only) > 0:
		wrong("Rule.Only is for the key Params; name in Fields what makes a request the same, and in Rule.Ignore what may differ")
	case o.Key != Fields && len(o.Request.Fields) > 0:
		wrong("Fields is set, and Key is not Fields; set it, or leave Fields out")
	case o.Key != Fields && o.Request.AnyPayload:
		wrong("AnyPayload is for the key Fields; set it, or leave AnyPayload out")
	case o.Request.Missing > MissingPass:
		wrong("Missing is %d; use MissingRefuse or MissingPass", o.Request.Missing)
	case o.Key != Fields && o.Request.Missing != 0:
		wrong("Missing is for the key Fields; set it, or leave Missing out")
	case o.Request.Missing == MissingPass && !o.Request.AnyPayload:
		wrong("Missing is MissingPass, and AnyPayload is not set: a caller who may act once could leave a field out and act again; set AnyPayload if these are events of a third party, or leave Missing out")
	case o.Key.Derived() && o.Request.Fingerprint != 0:
		wrong("Fingerprint is for keys that clients send, and Key derives them, by meaning already; leave Fingerprint out")
	case o.Request.Fingerprint > FingerprintJSON:
		wrong("Fingerprint is %d; use FingerprintBytes or FingerprintJSON", o.Request.Fingerprint)
	case !o.Key.Derived() && o.Request.Fingerprint != FingerprintJSON && (len(o.Request.Rule.Only) > 0 || len(o.Request.Rule.Ignore) > 0 || o.Request.Rule.NumbersAsWritten):
		wrong("Rule is for the keys Params and Fields and for FingerprintJSON; set one of them, or leave Rule out")
	}
	_, errMade := o.maker()
	_, errMeaning := o.meaning()
	if err := errors.Join(errMade, errMeaning); err != nil {
		wrong("Rule: %w", err)
	}
}

// DerivedPolicy returns own as the policy of keys that are derived from what a request asks for;
// base is that of the engine. Such keys count for own.Retention, default [DefaultWindow], however
// long the engine keeps answers, and the lease is no longer than that. Adapters for other protocols
// use it.
func DerivedPolicy(own, base retrysafe.Policy) retrysafe.Policy {
	if own.Retention == 0 {
		own.Retention = DefaultWindow
	}
	full := own.Or(base).WithDefaults()
	if own.Lease == 0 && full.Lease > own.Retention {
		own.Lease, own.MaxRun = own.Retention, full.MaxRun
	}
	return own
}

// make derives the id of a request, and the fingerprint that its duplicates must have. The id is
// empty if the request lacks a field and passes without a guard.
func (k *maker) make(r *http.Request, body []byte, c *retrysafe.Call) (id string, p *Problem) {
	if !k.any {
		sum, err := k.rule.Sum(r.Header.Get("Content-Type"), r.URL.RawQuery, body)
		if err != nil {
			return "", unmade(err)
		}
		if len(k.fields) == 0 {
			return madeMark + base64.RawURLEncoding.EncodeToString(sum), nil
		}
		c.Fingerprint, c.FingerprintRule = sum, k.mark
	}
	values, in, lacks := []byte("retrysafe fields 1\n"), reqfield.In(r, body), false
	for _, f := range k.fields {
		value, err := f.Of(in)
		if k.pass && errors.Is(err, reqfield.ErrAbsent) {
			lacks = true // another field may still be one that can be read in two ways
			continue
		}
		if err != nil {
			return "", unmade(err)
		}
		for _, text := range []string{f.Name(), value} {
			values = append(binary.AppendUvarint(values, uint64(len(text))), text...)
		}
	}
	if lacks {
		return "", nil
	}
	digest := sha256.Sum256(values)
	return madeMark + base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// print sets the fingerprint of a request that sends a key. A request that the rule cannot parse is
// compared byte for byte, and never equals one that it can parse.
func (k *maker) print(r *http.Request, body []byte, c *retrysafe.Call) {
	sum, err := k.rule.Sum(r.Header.Get("Content-Type"), r.URL.RawQuery, body)
	if err != nil {
		whole := payloadSum(r, body)
		sum = whole[:]
	}
	c.Fingerprint, c.FingerprintRule = sum, k.mark
}

// unmade says why no key could be derived.
func unmade(err error) *Problem {
	switch {
	case errors.Is(err, fingerprint.ErrTooLarge):
		return problemFor(retrysafe.CodeBodyTooLarge, err)
	case errors.Is(err, reqfield.ErrAbsent), errors.Is(err, fingerprint.ErrNothingKept):
		p := problemFor(retrysafe.CodeKeyNotMade, err)
		p.Detail = "A field that tells one request from another is missing. Nothing was done."
		return p
	default:
		p := problemFor(retrysafe.CodeKeyNotMade, err)
		p.Detail = "Its query or its body can be read in more than one way, or not at all: send JSON or a form as its Content-Type says, " +
			"with no name twice in an object. Nothing was done."
		return p
	}
}
