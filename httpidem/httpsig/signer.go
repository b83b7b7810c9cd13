package httpsig

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// DefaultTag is the tag of signatures of this package. It says what they are for: a signature that
// was made for another application with the same key is not accepted here (RFC 9421, section
// 7.2.2).
const DefaultTag = "retrysafe"

// defaultLife is how long a signature is valid. maxAge is the longest time that a verifier can be
// configured to accept.
const (
	defaultLife = time.Minute
	maxAge      = 24 * time.Hour
)

// Signer signs requests. KeyID and Key must be set. It is safe for concurrent use as long as its
// fields are not changed.
type Signer struct {
	// KeyID is the id by which the verifier finds the key.
	KeyID string
	// Key signs: a SharedKey or a PrivateKey.
	Key Key
	// Cover names further components to cover if the request has them: fields in lower case, or
	// @scheme and @target-uri. Always covered are @method, @authority, @path and @query, and if
	// present content-digest, content-type, content-encoding and idempotency-key.
	Cover []string
	// Life is how long a signature is valid, from created to expires; default 1 minute, 1 s to 24
	// h. A retry has a new signature.
	Life time.Duration
	// Tag says what signatures are for; default [DefaultTag]. The verifier must look for the same
	// tag.
	Tag string
	// Untagged omits the tag.
	Untagged bool
	// MaxBody is the largest body that is signed, in bytes; default 1 MiB. The body is held in
	// memory.
	MaxBody int64
	// Now is the clock; default time.Now.
	Now func() time.Time

	nonce func() string // nil: random
}

// Validate reports what is wrong with s. It returns nil if s is valid.
func (s *Signer) Validate() error {
	errs := []error{checkKeyID(s.KeyID), checkComponents(s.Cover), checkTag(s.Tag, s.Untagged)}
	if !s.Key.CanSign() {
		errs = append(errs, errors.New("httpsig: Signer.Key cannot sign; use SharedKey or PrivateKey"))
	}
	if s.Life != 0 && (s.Life < time.Second || s.Life > maxAge) {
		errs = append(errs, fmt.Errorf("httpsig: Signer.Life is %v; use 1s to 24h, or zero for 1m", s.Life))
	}
	if s.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("httpsig: Signer.MaxBody is %d; use a positive number of bytes", s.MaxBody))
	}
	return errors.Join(errs...)
}

func checkTag(tag string, untagged bool) error {
	switch {
	case untagged && tag != "":
		return errors.New("httpsig: Tag and Untagged are both set; leave one out")
	case !isPrintable(tag) || len(tag) > maxKeyID:
		return fmt.Errorf("httpsig: Tag must be printable ASCII of at most %d characters", maxKeyID)
	}
	return nil
}

// label is the label of the signature in the two fields. Nothing depends on it.
const label = "retrysafe"

// alwaysCovered are the components of every signature, and coveredIfPresent those that are covered
// if the request has them.
var (
	alwaysCovered    = []string{"@method", "@authority", "@path", "@query"}
	coveredIfPresent = []string{"content-digest", "content-type", "content-encoding", "idempotency-key"}
)

// Sign signs r as it will be sent. It sets Content-Digest if there is a body, or if the method
// usually has one, and Signature-Input and Signature. It replaces its own earlier signature, and
// keeps signatures of others. It reads the body to its end and restores it, with GetBody, so that
// [net/http] can send it. After an error r must not be sent, and the caller must close its body.
// Trailers cannot be signed.
func (s *Signer) Sign(r *http.Request) error {
	if err := s.Validate(); err != nil {
		return err
	}
	body, err := s.readAndDigest(r)
	if err != nil {
		return err
	}
	return s.signHead(r, body)
}

// readAndDigest reads the body of r and sets its digest.
func (s *Signer) readAndDigest(r *http.Request) (body []byte, err error) {
	if len(r.Trailer) > 0 {
		return nil, signError(errors.New("it has trailers, which nothing covers"))
	}
	if body, err = s.bufferBody(r); err != nil {
		return nil, err
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if len(body) > 0 || slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) {
		r.Header["Content-Digest"] = []string{contentDigest(body)}
	} else {
		delete(r.Header, "Content-Digest")
	}
	return body, nil
}

// signHead signs r as it is.
func (s *Signer) signHead(r *http.Request, body []byte) error {
	t, err := outgoingTarget(r)
	if err != nil {
		return signError(err)
	}
	m := &message{requestTarget: t, host: r.Host, header: r.Header, length: int64(len(body))}
	if m.host == "" {
		m.host = r.URL.Host
	}
	names, err := s.coveredNames(m)
	if err != nil {
		return signError(err)
	}
	list := s.inputMember(names)
	params, err := httpsfv.Marshal(list)
	if err != nil {
		return signError(err)
	}
	base, err := m.appendBase(nil, names, params)
	if err != nil {
		return signError(err)
	}
	value, err := s.Key.sign(base)
	if err != nil {
		return signError(err)
	}
	return s.addSignature(r.Header, list, value)
}

func signError(err error) error {
	return fmt.Errorf("httpsig: the request cannot be signed: %w; nothing was sent", err)
}

// bufferBody reads the body and restores it.
func (s *Signer) bufferBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		if r.ContentLength > 0 {
			return nil, signError(fmt.Errorf("its ContentLength is %d and it has no body", r.ContentLength))
		}
		return nil, nil
	}
	limit := s.MaxBody
	if limit == 0 {
		limit = 1 << 20
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, signError(fmt.Errorf("its body cannot be read: %w", err))
	case int64(len(b)) > limit:
		return nil, signError(fmt.Errorf("its body has more than %d bytes; raise Signer.MaxBody, here and at the verifier", limit))
	case r.ContentLength > 0 && r.ContentLength != int64(len(b)):
		return nil, signError(fmt.Errorf("its body has %d bytes and its ContentLength says %d", len(b), r.ContentLength))
	}
	_ = r.Body.Close()
	r.ContentLength, r.TransferEncoding = int64(len(b)), nil
	r.GetBody = func() (io.ReadCloser, error) { return newMemoryBody(b), nil }
	r.Body = newMemoryBody(b)
	return b, nil
}

// memoryBody is a body that knows its length.
type memoryBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*memoryBody) Close() error { return nil }

func newMemoryBody(b []byte) io.ReadCloser {
	if len(b) == 0 {
		return http.NoBody
	}
	m := new(memoryBody)
	m.Reset(b)
	return m
}

// coveredNames returns the components that the signature of m covers.
func (s *Signer) coveredNames(m *message) ([]string, error) {
	names := slices.Clone(alwaysCovered)
	for _, name := range slices.Concat(coveredIfPresent, s.Cover) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		for written := range m.header {
			if written != canonical && strings.EqualFold(written, name) {
				return nil, fmt.Errorf("%s is in the header under another spelling; set it with Header.Set", name)
			}
		}
		if lines := m.header[canonical]; len(lines) == 1 {
			m.header[canonical] = []string{strings.Trim(lines[0], " \t")} // as net/http sends it
		}
		if !slices.Contains(names, name) && (name[0] == '@' || m.hasField(name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

// inputMember returns the member of Signature-Input.
func (s *Signer) inputMember(names []string) httpsfv.InnerList {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	life := s.Life
	if life == 0 {
		life = defaultLife
	}
	created := now()
	nonce := s.nonce
	if nonce == nil {
		nonce = randomNonce
	}
	list := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range names {
		list.Items = append(list.Items, httpsfv.NewItem(name))
	}
	list.Params.Add("created", created.Unix())
	list.Params.Add("expires", created.Add(life).Unix())
	list.Params.Add("nonce", nonce())
	list.Params.Add("keyid", s.KeyID)
	if !s.Untagged {
		list.Params.Add("tag", tagOrDefault(s.Tag))
	}
	return list
}

// randomNonce returns 128 random bits.
func randomNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func tagOrDefault(tag string) string {
	if tag == "" {
		return DefaultTag
	}
	return tag
}

// addSignature adds the signature to those that are there.
func (*Signer) addSignature(h http.Header, list httpsfv.InnerList, value []byte) error {
	for name, member := range map[string]httpsfv.Member{"Signature-Input": list, "Signature": httpsfv.NewItem(value)} {
		d, err := parseDictionary(h[name])
		if err != nil {
			return signError(fmt.Errorf("its %s: %w", name, err))
		}
		d.Add(label, member)
		text, err := httpsfv.Marshal(d)
		if err != nil {
			return signError(err)
		}
		h[name] = []string{text}
	}
	return nil
}
