package browser_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/browser"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// mostBytes is the largest size of the compressed script.
const mostBytes = 4096

func TestScriptIsSmall(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	assert.NoError(t, err, "gzip")
	_, err = w.Write(browser.Script())
	assert.NoError(t, err, "pack")
	assert.NoError(t, w.Close(), "pack")
	t.Logf("%d bytes, %d packed", len(browser.Script()), packed.Len())
	assert.True(t, packed.Len() <= mostBytes, "retrysafe.js has %d bytes packed, at most %d; shorten it", packed.Len(), mostBytes)
}

// exported returns the names that match, sorted.
func exported(text []byte, pattern string) (names []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	return names
}

// TestTypesNameEveryExport tests that the types declare what the script exports, with the same
// number of parameters.
func TestTypesNameEveryExport(t *testing.T) {
	t.Parallel()
	inScript := exported(browser.Script(), `(?m)^export (?:async )?(?:function|const|class|let) (\w+)`)
	inTypes := exported(browser.Types(), `(?m)^export declare (?:function|const|class|let) (\w+)`)
	assert.Equal(t, inScript, []string{"enhance", "fetchOnce", "forget", "forgetAll", "newKey", "pending"}, "exports of the script")
	assert.Equal(t, inTypes, inScript, "exports of the types")
	assert.Equal(t, len(exported(browser.Script(), `(?m)^(export) `)), len(inScript), "lines that export, in whatever way")
	options := exported(browser.Types(), `(?m)^  (\w+)\??:`)
	used := exported(browser.Script(), `\bopts\.(\w+)`)
	used = append(used, exported(browser.Script(), `(?:[{,] )(max|total|minWait|maxWait|onRetry)\b`)...)
	for _, name := range used {
		assert.True(t, slices.Contains(options, name), "the types have the option %s", name)
	}
	for _, name := range options {
		known := slices.Contains(used, name) || slices.Contains([]string{"n", "wait", "offline", "res", "error"}, name)
		assert.True(t, known, "the script uses the option %s", name)
	}
}

func TestPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("package.json")
	assert.NoError(t, err, "read")
	var p struct {
		Type, License, Types string
		SideEffects          bool
		Exports              map[string]map[string]string
		Files                []string
		Dependencies         map[string]string
	}
	assert.NoError(t, json.Unmarshal(text, &p), "parse")
	assert.Equal(t, p.Type+" "+p.License, "module Apache-2.0", "type and licence")
	assert.Equal(t, len(p.Dependencies), 0, "dependencies")
	for _, file := range append(p.Files, p.Types, p.Exports["."]["types"], p.Exports["."]["default"]) {
		_, err := os.Stat(file)
		assert.NoError(t, err, "%s, which package.json names", file)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	get := func(method, target, match string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, nil)
		if match != "" {
			r.Header.Set("If-None-Match", match)
		}
		w := httptest.NewRecorder()
		browser.Handler().ServeHTTP(w, r)
		return w
	}
	plain := get("GET", "/any/where.js", "")
	assert.Equal(t, plain.Code, 200, "status")
	assert.Equal(t, plain.Body.String(), string(browser.Script()), "body")
	assert.Equal(t, plain.Header().Get("Content-Type"), "text/javascript; charset=utf-8", "type")
	assert.Equal(t, plain.Header().Get("Cache-Control"), "no-cache", "without a version")
	assert.Equal(t, get("GET", "/s.js?v=older", "").Header().Get("Cache-Control"), "no-cache", "with another version")
	assert.Equal(t, get("GET", browser.URL("/s.js"), "").Header().Get("Cache-Control"), "public, max-age=31536000, immutable", "with its own")
	assert.Equal(t, get("GET", "/s.js", plain.Header().Get("ETag")).Code, http.StatusNotModified, "asked again")
	assert.Equal(t, get("GET", "/s.js", `"other"`).Code, 200, "with another one in the cache")
	head := get("HEAD", "/s.js", "")
	assert.Equal(t, head.Code, 200, "HEAD")
	assert.Equal(t, head.Body.Len(), 0, "its body")
	assert.Equal(t, get("POST", "/s.js", "").Code, http.StatusMethodNotAllowed, "POST")
}

func TestIntegrity(t *testing.T) {
	t.Parallel()
	sum := sha512.Sum384(browser.Script())
	assert.Equal(t, browser.Integrity(), "sha384-"+base64.StdEncoding.EncodeToString(sum[:]), "integrity")
}
