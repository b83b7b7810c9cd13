package http_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSignedCopiesAtOnce: of a hundred concurrent copies of one signed request, through separate
// engines on one store, one is accepted. On Redis the nonce expires by itself.
func TestSignedCopiesAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := sqltest.NewFile(t)
		signedCopies(t, func() storeapi.Store {
			s, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{LockWait: time.Minute})
			return s
		})
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		s := servers.StartRedis(t)
		rounds := signedCopies(t, func() storeapi.Store { return teststores.Redis(t, servers.RueidisTo(t, s.Addr), nil) })
		keys := strings.Fields(strings.Trim(servers.RedisDo(s.Addr, "KEYS", "*nonce*"), "[]"))
		assert.Equal(t, len(keys), rounds, "nonces")
		for _, key := range keys {
			left, err := strconv.Atoi(servers.RedisDo(s.Addr, "PTTL", key))
			assert.True(t, err == nil && left > 60_000 && left < 180_000, "a nonce of a minute is kept for %d ms", left)
		}
	})
}

// signedCopies sends copies in rounds, and returns how many rounds there were.
func signedCopies(t *testing.T, open func() storeapi.Store) (rounds int) {
	t.Helper()
	key, err := httpsig.SharedKey(bytes.Repeat([]byte("k"), 32))
	assert.NoError(t, err, "key")
	handlers := make([]http.Handler, 4)
	for i := range handlers {
		v := httpsig.New(&httpsig.Options{
			Keys: httpsig.Keyring{"shop": {key}}, Nonces: httpsig.NoncesOn(teststores.ShortEngine(t, open(), retrysafe.Policy{})),
		})
		handlers[i] = v.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	}
	answered := 0
	for round := 0; round < 5 || answered == 0; round++ {
		rounds++
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://bank.example/payments", strings.NewReader("42 EUR"))
		assert.NoError(t, err, "request")
		assert.NoError(t, (&httpsig.Signer{KeyID: "shop", Key: key, Life: time.Minute}).Sign(r), "sign")
		var wire bytes.Buffer
		assert.NoError(t, r.Write(&wire), "write")
		copies := make([]*http.Request, 100)
		for i := range copies {
			copies[i], err = http.ReadRequest(bufio.NewReader(bytes.NewReader(wire.Bytes())))
			assert.NoError(t, err, "read")
		}
		codes := make([]int, len(copies))
		var wg sync.WaitGroup
		for i, c := range copies {
			wg.Go(func() {
				w := httptest.NewRecorder()
				handlers[i%len(handlers)].ServeHTTP(w, c)
				codes[i] = w.Code
			})
		}
		wg.Wait()
		count := map[int]int{}
		for _, code := range codes {
			count[code]++
		}
		// A copy to which a slow store has not answered in time gets 503, and may have used the
		// nonce.
		silent := count[http.StatusServiceUnavailable]
		assert.Equal(t, count[http.StatusCreated]+count[http.StatusConflict]+silent, len(copies), "round %d: %v", round, count)
		assert.True(t, count[http.StatusCreated] <= 1, "round %d: %v", round, count)
		if silent == 0 {
			assert.Equal(t, count[http.StatusCreated], 1, "round %d: %v", round, count)
			answered++
		}
	}
	return rounds
}
