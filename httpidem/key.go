package httpidem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// maxKey is the longest key in octets.
const maxKey = 255

// ParseKey parses the field lines of an Idempotency-Key. A value that begins with a double quote
// must be a whole String of RFC 8941 (section 3.3.3); its parameters are ignored. Any other value
// is bare: 0x21 to 0x7E without `" , ; \`. The parsed string is the key, so "abc" and abc are the
// same. A key has 1 to 255 octets. Two field lines, a list and everything else are errors, which
// never show the value.
func ParseKey(lines []string) (string, error) {
	if len(lines) != 1 {
		return "", errors.New("the field stands in the request more than once; send one key")
	}
	v := lines[0]
	var key string
	switch {
	case v == "":
		return "", errors.New("the value is empty; send a random key, for example a UUID")
	case v[0] == '"':
		inside, rest, ok := cutString(v)
		if !ok {
			return "", errors.New("the value begins with a quote and is no String of RFC 8941: it needs a closing quote, printable ASCII, and no escapes but \\\" and \\\\")
		}
		if !isParameters(rest) {
			return "", errors.New("something other than parameters follows the closing quote; a list of keys is not allowed")
		}
		key = inside
	default:
		for i := range len(v) {
			if v[i] < 0x21 || v[i] > 0x7E || strings.IndexByte(onlyQuoted, v[i]) >= 0 {
				return "", errors.New("the value has a character that a bare key may not have (only 0x21 to 0x7E without \" , ; \\); quote it")
			}
		}
		key = v
	}
	if len(key) == 0 || len(key) > maxKey {
		return "", errors.New("the key must have 1 to 255 octets")
	}
	return key, nil
}

// FormatKey returns key as the value of an Idempotency-Key: bare if [ParseKey] accepts that, else
// as a String of RFC 8941, section 4.1.6. ParseKey returns the same key. A key that has no such
// form is an error, which never shows the key.
func FormatKey(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("it is empty; use a random text, for example a UUID")
	case len(key) > maxKey:
		return "", fmt.Errorf("it has %d octets, at most %d are allowed; use a digest of it", len(key), maxKey)
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7E {
			return "", errors.New("it has a character that is not printable ASCII; use a digest of it, in hex")
		}
	}
	if !strings.ContainsAny(key, onlyQuoted) {
		return key, nil
	}
	b := append(make([]byte, 0, len(key)+8), '"')
	for i := range len(key) {
		if key[i] == '"' || key[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, key[i])
	}
	return string(append(b, '"')), nil
}

// onlyQuoted are the printable characters that a key may have only between quotes.
const onlyQuoted = ` ",;\`

// cutString parses an sf-string at the start of v.
func cutString(v string) (s, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return b.String(), v[i+1:], true
		case c == '\\':
			i++
			if i == len(v) || v[i] != '"' && v[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(v[i])
		case c < 0x20 || c > 0x7E:
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// isParameters reports whether v consists of parameters of RFC 8941, section 3.1.2, alone.
func isParameters(v string) bool {
	for v != "" {
		if v[0] != ';' {
			return false
		}
		v = strings.TrimLeft(v[1:], " ")
		n := countLeading(v, func(c byte, first bool) bool {
			return c >= 'a' && c <= 'z' || c == '*' || !first && (isDigit(c) || c == '_' || c == '-' || c == '.')
		})
		if n == 0 {
			return false
		}
		v = v[n:]
		if v == "" || v[0] != '=' {
			continue
		}
		var ok bool
		if v, ok = cutItem(v[1:]); !ok {
			return false
		}
	}
	return true
}

// cutItem cuts a bare item off the start of v. Only its end matters, not its value.
func cutItem(v string) (rest string, ok bool) {
	if v == "" {
		return "", false
	}
	switch c := v[0]; {
	case c == '"':
		_, rest, ok = cutString(v)
		return rest, ok
	case c == ':':
		end := strings.IndexByte(v[1:], ':')
		if end < 0 {
			return "", false
		}
		inside := v[1 : end+1]
		n := countLeading(inside, func(c byte, _ bool) bool { return isAlpha(c) || isDigit(c) || c == '+' || c == '/' || c == '=' })
		return v[end+2:], n == len(inside)
	case c == '?':
		if len(v) < 2 || v[1] != '0' && v[1] != '1' {
			return "", false
		}
		return v[2:], true
	case c == '-' || isDigit(c):
		n := countLeading(v, func(c byte, first bool) bool { return isDigit(c) || first && c == '-' || !first && c == '.' })
		return v[n:], isDigit(v[n-1])
	case isAlpha(c) || c == '*':
		n := countLeading(v, func(c byte, _ bool) bool {
			return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		})
		return v[n:], true
	}
	return "", false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// countLeading counts the leading bytes that fit.
func countLeading(v string, fits func(c byte, first bool) bool) int {
	for i := range len(v) {
		if !fits(v[i], i == 0) {
			return i
		}
	}
	return len(v)
}

// keyField parses KeySource.Field; it returns nil if there is none.
func (o *Options) keyField() (*reqfield.Field, error) {
	if o.KeySource.Field == "" {
		return nil, nil //nolint:nilnil // no body has the key
	}
	f, err := reqfield.Parse(o.KeySource.Field)
	if err == nil && !f.InBody() {
		err = fmt.Errorf("%q is no field of a body; write it like /idempotency_key, and name headers in KeySource.Header", o.KeySource.Field)
	}
	return &f, err
}

// validateKeyField reports what is wrong with KeySource.Field and KeySource.Form.
func (o *Options) validateKeyField(wrong func(format string, args ...any)) {
	if o.KeySource.Form && (o.Key.Derived() || o.Key == Off) {
		wrong("KeySource.Form reads keys that forms bring, and Key takes none; leave one of them out")
	}
	f, err := o.keyField()
	switch {
	case err != nil:
		wrong("KeySource.Field: %w", err)
	case f == nil:
	case o.Key.Derived() || o.Key == Off || o.Key == Token:
		wrong("KeySource.Field reads keys that clients make, and Key takes none of those; leave one of them out")
	case f.InForm() && o.KeySource.Form:
		wrong("KeySource.Form and KeySource.Field both name a field of forms; write KeySource.Field for JSON alone, like /idempotency_key, or leave KeySource.Form out")
	}
}

// mayHaveFieldKey reports whether the body of r may have the key in KeySource.Field. A body that
// says in two ways what it is may have it too, and is refused when it is read.
func (m *Middleware) mayHaveFieldKey(r *http.Request) bool {
	if m.keyField == nil {
		return false
	}
	for _, line := range r.Header["Content-Type"] {
		media, _, _ := strings.Cut(line, ";")
		media = strings.ToLower(strings.TrimSpace(media))
		if fingerprint.IsJSON(media) || m.keyField.InForm() && (media == formURL || media == formData) {
			return true
		}
	}
	return false
}

// fieldKey finds the key in the body, or else in lines, those of the header. It is empty if there
// is none and none is needed.
func (m *Middleware) fieldKey(r *http.Request, lines []string, body []byte) (string, *Problem) {
	key, err := m.keyField.Of(reqfield.In(r, body))
	switch {
	case err == nil:
		if _, err = FormatKey(key); err == nil {
			return key, nil
		}
	case errors.Is(err, reqfield.ErrEmpty), !errors.Is(err, reqfield.ErrAbsent):
	case lines != nil:
		if key, err = ParseKey(lines); err != nil {
			return "", m.keyMalformedProblem(r, err)
		}
		return key, nil
	case m.o.Key == Required:
		return "", m.keyMissingProblem()
	default:
		return "", nil
	}
	p := problemFor(retrysafe.CodeKeyMalformed, err)
	p.Detail = "The field " + m.keyField.String() + " of the body is no key, or can be read in more than one way: send it once, as a text of 1 to 255 " +
		"characters of printable ASCII, in a body that is what its Content-Type says. Nothing was done."
	return "", p
}

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

// derivedMark begins the id of a key that was derived here. No client can send it: a client's key
// is printable.
const derivedMark = "\x01"

// keyDeriver derives keys for requests.
type keyDeriver struct {
	// what makes two requests the same; empty: everything that counts
	fields         []reqfield.Field
	rule           *fingerprint.Compiled
	ruleNumber     uint8 // keeps sums of different rules from being compared
	onlyFields     bool  // only the fields count
	passIncomplete bool  // a request without one of the fields is not guarded
}

// forwardedKeyName names the key that inner services get in place of a derived one.
const forwardedKeyName = "retrysafe forwarded"

// Derived reports whether the keys of a mode are derived from requests instead of sent by clients.
func (m KeyMode) Derived() bool { return m == Params || m == Fields }

// keyDeriver compiles rule and fields; it returns nil if clients send the keys.
func (o *Options) keyDeriver() (*keyDeriver, error) {
	if !o.Key.Derived() {
		return nil, nil //nolint:nilnil // no key is derived
	}
	k := &keyDeriver{onlyFields: o.Request.AnyPayload, passIncomplete: o.Request.Missing == MissingPass}
	for _, text := range o.Request.Fields {
		f, err := reqfield.Parse(text)
		if err != nil {
			return nil, err
		}
		k.fields = append(k.fields, f)
	}
	slices.SortFunc(k.fields, func(a, b reqfield.Field) int { return strings.Compare(a.Name(), b.Name()) })
	var err error
	if k.rule, err = o.compileRule(); err != nil {
		return nil, err
	}
	k.ruleNumber = ruleNumberOf(k.rule.ID())
	return k, nil
}

// validateDerived reports what is wrong with the rule, the fields or the mode.
func (o *Options) validateDerived(wrong func(format string, args ...any)) {
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
	_, errMade := o.keyDeriver()
	_, errMeaning := o.fingerprintRule()
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

// derive derives the id of a request, and the fingerprint that its duplicates must have. The id is
// empty if the request lacks a field and passes without a guard.
func (k *keyDeriver) derive(r *http.Request, body []byte, x *guardedCall) (id string, p *Problem) {
	if !k.onlyFields {
		sum, err := k.rule.Sum(r.Header.Get("Content-Type"), r.URL.RawQuery, body)
		if err != nil {
			return "", notDerivedProblem(err)
		}
		if len(k.fields) == 0 {
			return derivedMark + base64.RawURLEncoding.EncodeToString(sum), nil
		}
		x.addOption(retrysafe.WithRuleFingerprint(k.ruleNumber, sum))
	}
	values, in, lacks := []byte("retrysafe fields 1\n"), reqfield.In(r, body), false
	for _, f := range k.fields {
		value, err := f.Of(in)
		if k.passIncomplete && errors.Is(err, reqfield.ErrAbsent) {
			lacks = true // another field may still be one that can be read in two ways
			continue
		}
		if err != nil {
			return "", notDerivedProblem(err)
		}
		for _, text := range []string{f.Name(), value} {
			values = append(binary.AppendUvarint(values, uint64(len(text))), text...)
		}
	}
	if lacks {
		return "", nil
	}
	digest := sha256.Sum256(values)
	return derivedMark + base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// addFingerprint sets the fingerprint of a request that sends a key. A request that the rule cannot
// parse is compared byte for byte, and never equals one that it can parse.
func (k *keyDeriver) addFingerprint(r *http.Request, body []byte, x *guardedCall) {
	sum, err := k.rule.Sum(r.Header.Get("Content-Type"), r.URL.RawQuery, body)
	if err != nil {
		whole := payloadDigest(r, r.URL.RawQuery, body)
		sum = whole[:]
	}
	x.addOption(retrysafe.WithRuleFingerprint(k.ruleNumber, sum))
}

// notDerivedProblem says why no key could be derived.
func notDerivedProblem(err error) *Problem {
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

// TokenField is the form field that has the token if no header has it.
const TokenField = "idempotency_key" //nolint:gosec // the name of a field

// Keys of tokens have these in place of the layer and the operation of a route: the issuer of a
// token does not need to know where it is used.
const (
	tokenLayer     = "token"
	tokenOperation = "token"
)

// Tokens is what a route with Key [Token] needs of the issuer of its tokens. The Issuer of the
// package token implements it.
type Tokens interface {
	// Redeem returns what a call requires of a token of that tenant. It never refuses a token: the
	// store does that, in the same way for every invalid token.
	Redeem(tenant, token string) retrysafe.CallOption
}

// tokenKey returns the key of a tenant's token.
func tokenKey(tenant, token string) retrysafe.Key {
	return retrysafe.Key{Tenant: retrysafe.KeyPart(tenant), Operation: tokenOperation, ID: retrysafe.KeyPart(token)}
}

// redeemToken returns what the call requires of a token.
func (m *Middleware) redeemToken(tenant, token string) retrysafe.CallOption {
	if m.o.KeySource.Tokens != nil {
		return m.o.KeySource.Tokens.Redeem(tenant, token)
	}
	return retrysafe.MustBeIssued()
}

// mayHaveFormKey reports whether a request without a key in its header may have one in its body.
func (m *Middleware) mayHaveFormKey(r *http.Request) bool {
	return (m.o.Key == Token || m.o.KeySource.Form) && isForm(r)
}

// isForm reports whether the body of r may have form fields.
func isForm(r *http.Request) bool {
	media, boundary := formType(r.Header)
	return media == formURL || media == formData && boundary != ""
}

const (
	formURL  = "application/x-www-form-urlencoded"
	formData = "multipart/form-data"
)

func formType(h http.Header) (media, boundary string) {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", ""
	}
	return media, params["boundary"]
}

// formKey finds the key in the body of a form. The key is empty if there is none and none is
// needed. Several fields of that name are refused, since services differ in which one they take.
func (m *Middleware) formKey(h http.Header, body []byte) (string, *Problem) {
	media, boundary := formType(h)
	var values []string
	whole := true
	switch media {
	case formURL:
		values = urlFields(body)
	case formData:
		values, whole = partFields(body, boundary)
	}
	none := len(values) == 0 || len(values) == 1 && values[0] == ""
	if m.o.Key == Token {
		switch {
		case none:
			return "", m.tokenMissingProblem()
		case len(values) > 1 || len(values[0]) > maxKey:
			return "", problemFor(retrysafe.CodeTokenRefused, errors.New("the form has several tokens, or one that is too long"))
		}
		return values[0], nil
	}
	switch {
	case !whole: // the service might find a key that was not found here
		p := problemFor(retrysafe.CodeKeyMalformed, errors.New("the form breaks off, or has a part that cannot be read"))
		p.Detail = "The form cannot be read to its end. Nothing was done."
		return "", p
	case len(values) == 0 && m.o.Key == Required:
		return "", m.keyMissingProblem()
	case len(values) == 0:
		return "", nil
	case len(values) == 1:
		if _, err := FormatKey(values[0]); err == nil {
			return values[0], nil
		}
	}
	p := problemFor(retrysafe.CodeKeyMalformed, errors.New("the form has several keys, or one that is none"))
	p.Detail = "The form has several fields " + TokenField + ", or one that is no key (1 to 255 characters of printable ASCII). Nothing was done."
	return "", p
}

// urlFields returns the values of the token's field, two at most. A field whose name cannot be
// decoded is not one of them.
func urlFields(body []byte) (values []string) {
	for pair := range bytes.SplitSeq(body, []byte("&")) {
		name, value, _ := strings.Cut(string(pair[:min(len(pair), 8*maxKey)]), "=")
		if name, err := url.QueryUnescape(name); err != nil || name != TokenField {
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			// too long to be accepted: other parsers may read it in different ways
			value = strings.Repeat("%", maxKey+1)
		}
		if values = append(values, value); len(values) == 2 {
			break
		}
	}
	return values
}

// partFields is urlFields for a multipart body. A body that breaks off has no fields and is not
// whole. Neither is a body that has a part without a name: the service might see fields that were
// not found here.
func partFields(body []byte, boundary string) (values []string, whole bool) {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	whole = true
	for {
		p, err := parts.NextPart()
		switch {
		case err == io.EOF: //nolint:errorlint // compared without errors.Is: an io.EOF that is wrapped means that the body broke off
			return values, whole
		case err != nil:
			return nil, false
		case p.FormName() == "":
			whole = false
			continue
		case p.FormName() != TokenField || len(values) == 2:
			continue
		}
		value, err := io.ReadAll(io.LimitReader(p, maxKey+1))
		if err != nil {
			return nil, false
		}
		values = append(values, string(value))
	}
}

type contextKey struct{}

// ContextWithKey returns a context that carries the key of a logical action: one click, one
// payment, one job. A [Transport] sends the requests under it with that key. A retry of the action
// must use the same key; store the key with the action if retries must survive the process.
//
// Requests to different operations may share a key, since servers keep the keys of each method and
// path apart. Two different requests to one operation may not: the second gets 422
// payload-mismatch. Give each its own key, for example key + "/2".
//
// A key has 1 to 255 octets of printable ASCII. That is checked when a request is sent.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// KeyFrom returns the key that [ContextWithKey] put into ctx.
func KeyFrom(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(contextKey{}).(string)
	return key, ok
}

// outgoingKey is the key of a request to be sent.
type outgoingKey struct {
	present bool   // the request has a key, so a server can recognise duplicates
	name    string // name of the header field
	line    string // to be added; empty if the request already has it, or has no key
}

// setHeader copies the fields of req to try and adds the key.
func (k *outgoingKey) setHeader(req, try *http.Request) {
	if try.Header = req.Header.Clone(); try.Header == nil {
		try.Header = http.Header{}
	}
	if k.line != "" {
		try.Header[k.name] = []string{k.line}
	}
}

// outgoingKeyFor returns the key of req, or an error if the key cannot be sent.
func (t *Transport) outgoingKeyFor(req *http.Request) (outgoingKey, error) {
	k := outgoingKey{name: "Idempotency-Key"}
	if t.Header != "" {
		k.name = http.CanonicalHeaderKey(t.Header)
	}
	if !IsToken(k.name) {
		return k, fmt.Errorf("httpidem: Transport.Header is %q, which is no header name; nothing was sent", k.name)
	}
	for name, lines := range req.Header { // the name may be in any case
		if strings.EqualFold(name, k.name) {
			k.present = len(lines) == 1 && lines[0] != ""
			return k, nil
		}
	}
	if isUnkeyedMethod(req.Method) || req.Method == http.MethodConnect {
		return k, nil
	}
	key, given := KeyFrom(req.Context())
	switch {
	case given && goesToOtherHost(req):
		if isIdempotentMethod(req.Method) {
			return k, nil
		}
		return k, errOtherHost
	case !given && t.NewKey == nil:
		return k, nil
	case !given:
		key = t.NewKey()
	}
	line, err := FormatKey(key)
	if err != nil {
		return k, fmt.Errorf("httpidem: the key of this request cannot be sent: %w; nothing was sent", err)
	}
	k.present, k.line = true, line
	return k, nil
}

// isUnkeyedMethod reports whether requests of a method get no key.
func isUnkeyedMethod(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

var errOtherHost = errors.New("httpidem: the server redirects this request to another host, which is not sent the key; " +
	"nothing was sent there: ask that host itself, or set the header of the key in CheckRedirect if it is to have it")

// goesToOtherHost reports whether req follows a redirect to another host than that of the first
// request.
func goesToOtherHost(req *http.Request) bool {
	first := req
	for first.Response != nil {
		if first = first.Response.Request; first == nil {
			return true // the first request is not known
		}
	}
	return first != req && !isSameOrigin(first.URL, req.URL)
}

// isSameOrigin reports whether the origins (RFC 6454) are the same. It also accepts a redirect from
// http at port 80 to https at port 443: a key may move to a safer connection, never to a less safe
// one.
func isSameOrigin(first, next *url.URL) bool {
	if first == nil || next == nil || !strings.EqualFold(first.Hostname(), next.Hostname()) {
		return false
	}
	from, to := schemeAndPort(first), schemeAndPort(next)
	return from == to || from == "http:80" && to == "https:443"
}

// schemeAndPort returns the scheme and the port of u.
func schemeAndPort(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return net.JoinHostPort(scheme, port)
}
