package httpidem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"
)

// payloadSum is version 1 of the digest that distinguishes a duplicate from another request with
// the same key. Its form is frozen:
//
//	SHA-256("rs1\n" method "\n" path "\n" query "\n" media type "\n" hex(SHA-256(body)))
//
// Path and query are as sent. Only the media type of the content type counts, without its
// parameters: the boundary of a multipart body differs in each retry, so "--boundary" is read as
// "--".
func payloadSum(r *http.Request, body []byte) [sha256.Size]byte {
	return payloadSumOf(r, r.URL.RawQuery, body)
}

// payloadSumOf is payloadSum of a request with another query.
func payloadSumOf(r *http.Request, query string, body []byte) [sha256.Size]byte {
	media := mediaType(r)
	if strings.HasPrefix(media, "multipart/") {
		if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && params["boundary"] != "" {
			body = bytes.ReplaceAll(body, []byte("--"+params["boundary"]), []byte("--"))
		}
	}
	inner := sha256.Sum256(body)
	var space [512]byte
	return sha256.Sum256(hex.AppendEncode(appendRequest(append(space[:0], "rs1\n"...), r, query, media), inner[:]))
}

// appendRequest appends all that counts besides the body, a line for each.
func appendRequest(b []byte, r *http.Request, query, media string) []byte {
	b = append(append(b, r.Method...), '\n')
	b = append(append(b, sentPath(r)...), '\n')
	b = append(append(b, query...), '\n')
	return append(append(b, media...), '\n')
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

// asSent returns the default operation.
func asSent(r *http.Request) string { return r.Method + " " + sentPath(r) }
