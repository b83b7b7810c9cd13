package httpidem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// payloadDigest is version 1 of the digest that distinguishes a duplicate from another request with
// the same key. Its form is frozen:
//
//	SHA-256("rs1\n" method "\n" path "\n" query "\n" media type "\n" hex(SHA-256(body)))
//
// The path is as sent, and query is what counts of the query. Only the media type of the content
// type counts, without its parameters: the boundary of a multipart body differs in each retry, so
// "--boundary" is read as "--".
func payloadDigest(r *http.Request, query string, body []byte) [sha256.Size]byte {
	media := mediaType(r)
	if strings.HasPrefix(media, "multipart/") {
		if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && params["boundary"] != "" {
			body = bytes.ReplaceAll(body, []byte("--"+params["boundary"]), []byte("--"))
		}
	}
	inner := sha256.Sum256(body)
	return requestDigest("rs1\n", r, query, media, inner[:])
}

// requestDigest is the digest of what counts of a request: a line for the version and each part of
// the head, and inner, the digest of the body.
func requestDigest(version string, r *http.Request, query, media string, inner []byte) [sha256.Size]byte {
	var space [512]byte
	b := append(space[:0], version...)
	b = append(append(b, r.Method...), '\n')
	b = append(append(b, sentPath(r)...), '\n')
	b = append(append(b, query...), '\n')
	b = append(append(b, media...), '\n')
	return sha256.Sum256(hex.AppendEncode(b, inner))
}

// mediaType returns the media type in lower case, without its parameters.
func mediaType(r *http.Request) string {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// sentPath returns the escaped path as the client sent it. Outer handlers may have changed the
// URL's path (http.StripPrefix).
func sentPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	if path := r.URL.EscapedPath(); path != "" {
		return path // absolute form, or a request that no server has read
	}
	return r.RequestURI
}

// sentOperation is the default of RequestOptions.Operation.
func sentOperation(r *http.Request) string { return r.Method + " " + sentPath(r) }

// Fingerprint says when a request that sends a known key is a duplicate, and when it is another
// request: 422 payload-mismatch.
type Fingerprint uint8

// The values of Fingerprint. In both, method, path, query and media type have to be as sent, except
// for the parameters of the query that RequestOptions.Rule ignores by name.
const (
	// FingerprintBytes compares bodies byte for byte. It is the default.
	FingerprintBytes Fingerprint = iota + 1
	// FingerprintJSON compares JSON bodies by their meaning, as RequestOptions.Rule says: the order
	// of members, white space and escapes do not count, 1.0 is 1, and null is not the same as an
	// absent member. It is for clients that write the JSON of each retry again. Bodies of other
	// media types are compared byte for byte (a form without the fields that RequestOptions.Rule
	// ignores by name, a multipart body without its boundary), and so is JSON that can be read in
	// more than one way, or not at all, and a compressed body.
	FingerprintJSON
)

// fingerprintRule makes the fingerprints of FingerprintJSON.
type fingerprintRule struct {
	rule       *fingerprint.Compiled
	ruleNumber uint8 // keeps fingerprints of different rules from being compared
}

// fingerprintRule compiles the rule; it returns nil if bodies are compared byte for byte.
func (o *Options) fingerprintRule() (*fingerprintRule, error) {
	if o.Request.Fingerprint != FingerprintJSON {
		return nil, nil //nolint:nilnil // no rule is needed
	}
	own := *o
	// what Go and JavaScript read in different ways is compared byte for byte
	own.Request.Rule.DistinctNames = true
	rule, err := own.compileRule()
	if err != nil {
		return nil, err
	}
	id := rule.ID()
	kind := "retrysafe json\n"
	if rule.IgnoresNames() { // v0.1.0 did not leave them out of queries and forms
		kind = "retrysafe json 2\n"
	}
	id = sha256.Sum256(append([]byte(kind), id[:]...))
	return &fingerprintRule{rule: rule, ruleNumber: ruleNumberOf(id)}, nil
}

// ruleNumberOf returns the number of a rule for Call.FingerprintRule.
func ruleNumberOf(id [sha256.Size]byte) uint8 { return 1 + id[0]%127 }

// compileRule returns the rule, with the middleware's limit for a body.
func (o *Options) compileRule() (*fingerprint.Compiled, error) {
	rule := o.Request.Rule
	if rule.MaxBytes == 0 && o.Limit.Body > 0 {
		rule.MaxBytes = int(min(o.Limit.Body+64<<10, 64<<20)) // query and body
	}
	return rule.Compile()
}

// isJSON reports whether every program takes the body for JSON in UTF-8.
func isJSON(r *http.Request) bool {
	media, params, ok := reqfield.Media(r.Header)
	charset, given := params["charset"]
	return ok && fingerprint.IsJSON(media) && (!given || strings.EqualFold(charset, "utf-8"))
}

// digest is version 1 of the digest of a request whose JSON counts by its meaning. Its form is
// frozen:
//
//	SHA-256("rs2\n" method "\n" path "\n" query "\n" media type "\n" hex(fingerprint.Compiled.Sum of the body))
//
// For everything else, JSON that the rule cannot parse included, it is that of payloadDigest, so
// the two are never equal. The query, and the body of a form, are without what the rule ignores by
// name.
func (m *fingerprintRule) digest(r *http.Request, body []byte) [sha256.Size]byte {
	media, query := mediaType(r), m.rule.LeaveOut(r.URL.RawQuery)
	if kind, _, ok := reqfield.Media(r.Header); ok && kind == formURL && m.rule.IgnoresNames() {
		body = []byte(m.rule.LeaveOut(string(body)))
	}
	if isJSON(r) {
		if inner, err := m.rule.Sum(media, "", body); err == nil {
			return requestDigest("rs2\n", r, query, media, inner)
		}
	}
	return payloadDigest(r, query, body)
}
