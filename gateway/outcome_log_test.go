package gateway_test

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestUnknownOutcomeIsFoundByItsLog tests that the log of an unknown outcome names the record as
// keys list does, and that the answer that an operator then gives is replayed with a Date.
func TestUnknownOutcomeIsFoundByItsLog(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return reset(c) })
	log, store := new(lockedBuffer), memstore.New(nil)
	e := newEngine(t, store, retrysafe.Policy{})
	_, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{"http://" + u.addr}, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	resp, _, err := send(t, base, "POST", "a-key", "x")
	assert.NoError(t, err, "answer")
	assert.Equal(t, resp.StatusCode, http.StatusBadGateway, "status")

	page, err := store.List(t.Context(), storeapi.ListRequest{Limit: 10, Layer: "gw"})
	assert.NoError(t, err, "list")
	assert.Equal(t, len(page.Records), 1, "records")
	rec, gw := &page.Records[0], e.Layer("gw")
	var hashes []string
	for line := range strings.Lines(log.String()) {
		var said struct {
			Msg  string `json:"msg"`
			Hash string `json:"key_hash"`
		}
		assert.NoError(t, json.Unmarshal([]byte(line), &said), "%s", line)
		if said.Msg == "outcome unknown" {
			hashes = append(hashes, said.Hash)
		}
	}
	assert.Equal(t, hashes, []string{gw.KeyHash(rec.Key.Key)}, "hashes of the log")

	answer, err := httpidem.StoredAnswer(201, nil, []byte("done"))
	assert.NoError(t, err, "answer")
	assert.NoError(t, gw.Resolve(t.Context(), rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: answer}), "resolve")
	resp, body, err := send(t, base, "POST", "a-key", "x")
	assert.NoError(t, err, "answer")
	assert.Equal(t, body, "done", "the replay")
	_, err = http.ParseTime(resp.Header.Get("Date"))
	assert.NoError(t, err, "Date of the replay")
}
