package httpsig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Verifier accepts requests with a valid signature, each of them once. It is safe for concurrent
// use.
type Verifier struct {
	o Options
}

// New returns a verifier. It panics if [Options.Validate] returns an error.
func New(o *Options) *Verifier {
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	v := &Verifier{o: *o}
	v.o.setDefaults()
	return v
}

// Handler returns a handler that passes to next the requests that [Verifier.Accept] accepts. Put it
// before httpidem's middleware, with [Tenant] as the tenant there. Refusals are problem documents:
// 401 signature-missing, signature-refused and signature-expired, 409 nonce-used, 413
// body-too-large, 400 body-incomplete, 503 store-unavailable and shutting-down. After a refusal
// nothing has run.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		// a ResponseWriter without read deadlines has no connection that could be slow
		_ = rc.SetReadDeadline(time.Now().Add(v.o.BodyTime))
		accepted, err := v.Accept(r)
		_ = rc.SetReadDeadline(time.Time{})
		if err != nil {
			v.Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, accepted)
	})
}

// Refuse answers a request that [Verifier.Accept] has refused with err.
func (v *Verifier) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = newRefusal(err)
	}
	if v.o.OnRefused != nil {
		v.o.OnRefused(r, refusal)
	}
	p := refusal.Problem()
	p.Type = v.o.Docs + p.Code + ".md"
	if p.Status == http.StatusUnauthorized {
		// RFC 9110 requires a challenge, and no scheme is registered for RFC 9421
		w.Header().Set("WWW-Authenticate", "Signature")
	}
	if r.Body != nil && r.Body != http.NoBody {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	if v.o.ErrorHandler != nil {
		v.o.ErrorHandler(w, r, p)
		return
	}
	p.ServeHTTP(w, r)
}

// Accept returns the request to continue with, or a [*Refusal]. In this order, it reads the
// signature, finds its key, checks what it must cover, verifies it, checks its time, reads the body
// and compares it with Content-Digest, checks the time again, and then claims the nonce. So a
// caller without a key can neither make the server read a body nor use up a nonce.
//
// The request that is returned has its body in memory, no trailer, and the [Caller] in its context.
// r must be a request that a server received, with its RequestURI as it was sent, and with a body
// that has not been read; r itself must not be used any more.
func (v *Verifier) Accept(r *http.Request) (*http.Request, error) {
	in, m, err := v.readSignature(r)
	if err != nil {
		return nil, err
	}
	key, err := v.keyOf(r.Context(), in, m)
	if err != nil {
		return nil, err
	}
	if _, err = v.timeLeft(in); err != nil {
		return nil, err
	}
	body, err := v.verifyBody(r, in)
	if err != nil {
		return nil, err
	}
	// a body that arrives slowly must not outlive the record of its nonce
	left, err := v.timeLeft(in)
	if err != nil {
		return nil, err
	}
	if err := v.o.Nonces.Claim(r.Context(), in.keyid, in.nonce, left+2*v.o.Skew+claimTime); err != nil {
		if errors.Is(err, ErrNonceUsed) {
			return nil, &Refusal{codeUsed, err}
		}
		return nil, lookupRefusal(err)
	}
	c := &Caller{KeyID: in.keyid, Principal: key.Principal, Created: time.Unix(in.created, 0), Covered: in.names}
	if c.Principal == "" {
		c.Principal = c.KeyID
	}
	accepted := r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
	accepted.Body, accepted.ContentLength, accepted.GetBody = newMemoryBody(body), int64(len(body)), nil
	accepted.TransferEncoding, accepted.Trailer = nil, nil
	return accepted, nil
}

// claimTime is longer than a claim can take.
const claimTime = 10 * time.Second

var (
	errUnsignedHost = errors.New("the request is for a host that is not this service's")
	errUncovered    = errors.New("the signature has to cover it")
	errUnknownKey   = errors.New("the key is unknown, or not valid at this time")
	errAlgorithm    = errors.New("the signature names another algorithm than its key's")
	errMismatch     = errors.New("the signature is not of this request by this key")
	errFuture       = errors.New("the signature was created in the future; the clocks of the two sides differ")
	errOld          = errors.New("the signature is too old, or has expired")
)

// readSignature reads the signature of r and checks what it covers.
func (v *Verifier) readSignature(r *http.Request) (*parsedSignature, *message, error) {
	if r.Header["Signature-Input"] == nil || r.Header["Signature"] == nil {
		return nil, nil, &Refusal{codeMissing, errNone}
	}
	in, err := findSignature(r.Header, v.o.Tag, v.o.Untagged)
	switch {
	case errors.Is(err, errNone):
		return nil, nil, &Refusal{codeMissing, err}
	case err != nil:
		return nil, nil, newRefusal(err)
	}
	m := &message{host: r.Host, header: r.Header, length: r.ContentLength}
	if m.requestTarget, err = receivedTarget(r, v.o.Scheme); err != nil {
		return nil, nil, newRefusal(err)
	}
	if len(v.o.Authorities) > 0 && !slices.ContainsFunc(v.o.Authorities, func(host string) bool {
		own, err := normalizeAuthority(host, m.scheme)
		return err == nil && own == m.authority
	}) {
		return nil, nil, newRefusal(errUnsignedHost)
	}
	for _, name := range v.o.Require {
		if !in.covers(name) {
			return nil, nil, newRefusal(&componentError{name, errUncovered})
		}
	}
	for _, name := range v.o.IfPresent {
		if m.hasField(name) && !in.covers(name) {
			return nil, nil, newRefusal(&componentError{name, errUncovered})
		}
	}
	if r.ContentLength != 0 && !in.covers("content-digest") {
		return nil, nil, newRefusal(&componentError{"content-digest", errUncovered})
	}
	return in, m, nil
}

// keyOf returns the key that made the signature.
func (v *Verifier) keyOf(ctx context.Context, in *parsedSignature, m *message) (*Key, error) {
	var space [1024]byte
	base, err := m.appendBase(space[:0], in.names, in.params)
	if err != nil {
		return nil, newRefusal(err)
	}
	keys, err := v.o.Keys.Keys(ctx, in.keyid)
	if err != nil {
		return nil, lookupRefusal(err)
	}
	now, why := v.o.Now(), errUnknownKey
	for i := range keys {
		key := &keys[i]
		switch {
		case !key.validAt(now):
		case in.alg != "" && in.alg != string(key.algorithm):
			why = errAlgorithm
		case key.verify(base, in.value):
			return key, nil
		default:
			why = errMismatch
		}
	}
	return nil, newRefusal(why)
}

// timeLeft returns how long the signature will be accepted from now on.
func (v *Verifier) timeLeft(in *parsedSignature) (time.Duration, error) {
	now, created := v.o.Now(), time.Unix(in.created, 0)
	end := created.Add(v.o.MaxAge)
	if expires := time.Unix(in.expires, 0); in.mayExpire && expires.Before(end) {
		end = expires
	}
	end = end.Add(v.o.Skew)
	switch {
	case created.After(now.Add(v.o.Skew)):
		return 0, &Refusal{codeTime, errFuture}
	case now.After(end):
		return 0, &Refusal{codeTime, errOld}
	}
	return end.Sub(now), nil
}

var errBody = errors.New("the body did not arrive as it was announced, or somebody has read it before")

// verifyBody reads the body and compares it with Content-Digest if that is covered.
func (v *Verifier) verifyBody(r *http.Request, in *parsedSignature) ([]byte, error) {
	body, err := v.readBody(r)
	if err != nil {
		return nil, err
	}
	if in.covers("content-digest") {
		if err := checkDigest(r.Header["Content-Digest"], body); err != nil {
			return nil, newRefusal(err)
		}
	} else if len(body) > 0 { // more than was announced
		return nil, newRefusal(&componentError{"content-digest", errUncovered})
	}
	return body, nil
}

func (v *Verifier) readBody(r *http.Request) ([]byte, error) {
	limit := v.o.MaxBody
	switch {
	case r.ContentLength > limit:
		return nil, &Refusal{"body-too-large", httpidem.NewProblem("body-too-large", nil)}
	case r.Body == nil || r.Body == http.NoBody:
		if r.ContentLength > 0 {
			return nil, &Refusal{"body-incomplete", errBody}
		}
		return nil, nil
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	var tooLarge *http.MaxBytesError // an outer handler has its own limit
	switch {
	case errors.As(err, &tooLarge), n > limit:
		return nil, &Refusal{"body-too-large", httpidem.NewProblem("body-too-large", nil)}
	case err != nil:
		return nil, &Refusal{"body-incomplete", err}
	case r.ContentLength > 0 && n != r.ContentLength, r.PostForm != nil, r.MultipartForm != nil:
		return nil, &Refusal{"body-incomplete", errBody}
	}
	return buf.Bytes(), nil
}
