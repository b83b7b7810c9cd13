package httpsig_test

import (
	"bytes"
	"crypto"
	"io"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func publicOf(tb testing.TB, w *world, id string) crypto.PublicKey {
	tb.Helper()
	return w.keys[id].Public()
}

// resign signs r with a digest that does not match its body, like a client that has a key and
// computes the digest wrongly.
func (w *world) resign(r *http.Request, change func(http.Header)) string {
	w.t.Helper()
	body, err := io.ReadAll(r.Body)
	assert.NoError(w.t, err, "body")
	r.Body = io.NopCloser(bytes.NewReader(body))
	assert.NoError(w.t, httpsig.SignChanged(w.signer("hmac"), r, change), "sign")
	var b bytes.Buffer
	assert.NoError(w.t, r.Write(&b), "write")
	return b.String()
}
