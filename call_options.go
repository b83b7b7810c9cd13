package retrysafe

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

// CallOption changes one call of [Do], [Run], [Engine.Begin] or [DoTx]. The zero value changes
// nothing.
type CallOption struct {
	// set captures nothing in the options that a middleware has for each request: they would
	// allocate. What it sets is in the fields below.
	set   func(*callOptions, CallOption)
	bytes []byte
	text  string
	rule  uint8
}

type callOptions struct {
	policy           *Policy // never modified: options replace it
	fingerprint      []byte
	fingerprintSpace [1 + sha256.Size]byte // for a fingerprint of the usual size
	binding          []byte                // the credential itself; the engine stores a digest
	account          string                // the account that Limits count, instead of the tenant
	// The context keeps the caller's deadline, but not its cancellation. Set by Do.
	outlives bool
	attached bool // the context ends with the caller's, even if outlives is set
	detached bool // the context keeps neither deadline nor cancellation
	issued   issuedOptions
	retries  int     // for DoTx
	input    *Answer // stored in the record before the work begins; nil: none
	err      error
}

// WithPolicy changes the policy of this call. A zero field of p keeps the engine's value.
func WithPolicy(p Policy) CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) {
		p := p.Or(*c.policy)
		c.policy, c.err = &p, errors.Join(c.err, p.Validate())
	}}
}

// WithBinding binds the key to a credential: a duplicate with another credential gets
// [ErrPrincipalChanged]. Only a digest of the credential is stored.
func WithBinding(credential []byte) CallOption {
	return CallOption{bytes: credential, set: func(c *callOptions, o CallOption) { c.binding = o.bytes }}
}

// WithAccount sets the account that [Limits] count instead of the tenant. Use it for callers whose
// tenant is not verified: otherwise a caller that only claims to be a tenant could use up that
// tenant's quota. The account is not part of the key.
func WithAccount(account string) CallOption {
	return CallOption{text: account, set: func(c *callOptions, o CallOption) { c.account = KeyPart(o.text) }}
}

// Attached ends the work of [Do] when ctx is cancelled, as [Policy].Attached does. Use it for work
// that then undoes what it did, or that does no harm if it starts again.
func Attached() CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) { c.attached = true }}
}

// Detached lets the attempt outlive ctx: the attempt's context has the values of ctx, but neither
// its cancellation nor its deadline. Begin itself still ends with ctx.
func Detached() CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) { c.detached = true }}
}

// RetryWork lets [DoTx] run its transaction again, the work included, at most this many times, if
// the database has rolled it back in favour of another one: a deadlock, or a serialization failure.
// The default is 0: the caller gets the error and retries. Use it only if the work does nothing
// outside its transaction. Other calls ignore it.
func RetryWork(times int) CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) {
		if c.retries = times; times < 0 {
			c.err = errors.Join(c.err, fmt.Errorf("retrysafe: RetryWork(%d): use 0 or more", times))
		}
	}}
}

func (c *callOptions) withOptions(opts []CallOption) *callOptions {
	if len(opts) == 0 {
		return c
	}
	own := *c
	for _, o := range opts {
		if o.set != nil {
			o.set(&own, o)
		}
	}
	return &own
}

// withOutlives returns the options with outlives set, for [Do]: work that has begun does not end
// because its caller has gone.
func (c callOptions) withOutlives() *callOptions {
	c.outlives = true
	return &c
}

// issuedOptions holds the options of a call whose key the server must have issued.
type issuedOptions struct {
	must        bool
	signedUntil time.Time
	life        time.Duration
}

// MustBeIssued refuses a key with [ErrNotIssued] if the server has not issued it, or if the time
// for its first use has passed. [DoTx] does not support it: redeem the key around the transaction.
func MustBeIssued() CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) { c.issued.must = true }}
}

// MustBeIssuedFor is [MustBeIssued] for keys that may be used for the first time during life. Their
// records are kept for at least a minute longer, so that a key that was released can be used again.
// If a signature proves that the server issued the key, the store need not know it until
// signedUntil, by the store's clock; zero: there is no such signature.
func MustBeIssuedFor(life time.Duration, signedUntil time.Time) CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) {
		c.issued = issuedOptions{must: true, signedUntil: signedUntil, life: life}
	}}
}

// Versions of fingerprints: the first byte of what is stored. Fingerprints of different versions
// are not compared, so a new algorithm does not turn retries in flight into mismatches.
const (
	fingerprintGiven   = 1
	fingerprintPayload = 2
	// fingerprintOfRules and the values above it stand for the rules of [WithRuleFingerprint].
	fingerprintOfRules = 128
)

// maxFingerprint leaves room for a version byte in the one-byte length of the packed form.
const maxFingerprint = 254

// WithFingerprint sets the digest of the request, of at most 254 bytes. A duplicate with another
// digest gets [ErrFingerprintMismatch]. An empty digest sets none.
func WithFingerprint(digest []byte) CallOption {
	return CallOption{bytes: digest, set: func(c *callOptions, o CallOption) { c.setFingerprint(fingerprintGiven, o.bytes) }}
}

// WithRuleFingerprint is [WithFingerprint] for a digest that a rule has made. rule is the number of
// the rule, 1 to 127; fingerprints of different rules are not compared.
func WithRuleFingerprint(rule uint8, digest []byte) CallOption {
	return CallOption{rule: rule, bytes: digest, set: func(c *callOptions, o CallOption) {
		if o.rule == 0 || o.rule >= fingerprintOfRules {
			c.err = errors.Join(c.err, fmt.Errorf("retrysafe: WithRuleFingerprint(%d): use 1 to %d", o.rule, fingerprintOfRules-1))
			return
		}
		c.setFingerprint(fingerprintOfRules|o.rule, o.bytes)
	}}
}

func (c *callOptions) setFingerprint(version byte, digest []byte) {
	if len(digest) == 0 {
		return
	}
	if len(digest) > maxFingerprint {
		c.err = errors.Join(c.err, fmt.Errorf("retrysafe: the fingerprint has %d bytes, at most %d are allowed; hash it", len(digest), maxFingerprint))
		return
	}
	c.fingerprint = append(append(c.fingerprintSpace[:0], version), digest...)
}

// WithPayload sets the fingerprint to the SHA-256 of the request in JSON; of a []byte or string, to
// that of its bytes. The JSON must be the same in each retry: leave out send times and random
// values. What JSON leaves out is not compared. A text that is no UTF-8 is an error of the call. A
// type with MarshalJSON has to see to its texts itself.
func WithPayload(v any) CallOption {
	return CallOption{set: func(c *callOptions, _ CallOption) {
		fp, err := payloadFingerprint(v)
		c.fingerprint, c.err = fp, errors.Join(c.err, err)
	}}
}

// errPayloadText: two payloads whose texts differ in such bytes alone would be one.
var errPayloadText = errors.New("retrysafe: WithPayload: a text of the payload is no UTF-8, and JSON cannot tell such texts apart; check the input, or give a digest with WithFingerprint")

func payloadFingerprint(v any) ([]byte, error) {
	var kind string
	var data []byte
	switch v := v.(type) {
	case []byte:
		kind, data = "bytes", v
	case string:
		kind, data = "bytes", []byte(v)
	default:
		var err error
		if data, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("retrysafe: WithPayload: the payload has no JSON form (%w); give a digest with WithFingerprint", err)
		}
		if bytes.Contains(data, []byte(`\ufffd`)) && hasBrokenText(reflect.ValueOf(v)) {
			return nil, errPayloadText
		}
		kind = "json"
	}
	h := sha256.New()
	h.Write([]byte("retrysafe payload 2 " + kind + "\n"))
	h.Write(data)
	return h.Sum([]byte{fingerprintPayload}), nil
}

// hasBrokenText reports whether encoding/json writes a text of v that is no UTF-8. It does not know
// those that a MarshalJSON writes. The value has a JSON form, so it is no cycle.
func hasBrokenText(v reflect.Value) bool {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	if method := methodOf[json.Marshaler](v); method.IsValid() {
		return false
	}
	if method := methodOf[encoding.TextMarshaler](v); method.IsValid() {
		return isBrokenText(method)
	}
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return hasBrokenText(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if hasBrokenText(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if isBrokenKey(entries.Key()) || hasBrokenText(entries.Value()) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			written := (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-"
			if written && hasBrokenText(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// isBrokenKey is hasBrokenText for the key of a map, which is written as it is if it is a string.
func isBrokenKey(key reflect.Value) bool {
	if key.Kind() == reflect.String {
		return !utf8.ValidString(key.String())
	}
	method := methodOf[encoding.TextMarshaler](key)
	return method.IsValid() && isBrokenText(method)
}

// methodOf returns v or its address as a value with the methods of M, as far as encoding/json would
// call them.
func methodOf[M any](v reflect.Value) (with reflect.Value) {
	methods := reflect.TypeFor[M]()
	switch {
	case v.Kind() == reflect.Interface: // what is in it decides
	case v.Type().Implements(methods):
		return v
	case v.CanAddr() && reflect.PointerTo(v.Type()).Implements(methods):
		return v.Addr()
	}
	return with
}

// isBrokenText reports whether MarshalText returns a text that is no UTF-8.
func isBrokenText(with reflect.Value) bool {
	if !with.CanInterface() {
		return false
	}
	text, err := with.Interface().(encoding.TextMarshaler).MarshalText() //nolint:forcetypeassert // it has the method
	return err == nil && !utf8.Valid(text)
}
