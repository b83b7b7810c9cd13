package browser

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"net/http"
	"time"
)

//go:embed retrysafe.js
var script []byte

//go:embed retrysafe.d.ts
var types []byte

// Script returns a copy of retrysafe.js.
func Script() []byte { return bytes.Clone(script) }

// Types returns a copy of retrysafe.d.ts, for those who copy the script into their own build.
func Types() []byte { return bytes.Clone(types) }

// version changes with the script.
var version = func() string {
	sum := sha256.Sum256(script)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}()

// URL returns the address at which a page requests the script that [Handler] serves at path. It
// includes the version, so that the script is fetched once and cached for a year, and fetched again
// when it has changed.
func URL(path string) string { return path + "?v=" + version }

// Integrity returns the value of the attribute integrity, with which a browser refuses any other
// script.
func Integrity() string {
	sum := sha512.Sum384(script)
	return "sha384-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Handler serves the script to GET and HEAD, under any path. At the address of [URL] it may be
// cached for a year, also by shared caches. At any other address a browser asks each time, and gets
// 304 as long as the script has not changed.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "This is a script; ask for it with GET.", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("ETag", `"`+version+`"`)
		h.Set("Cache-Control", "no-cache")
		if r.URL.Query().Get("v") == version {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(script))
	})
}
