package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/theory/jsonpath"
)

// maxWebhook bounds the body of a webhook, in bytes.
const maxWebhook = 1 << 20

// Webhooks counts the webhooks that an API sends: each POST, or each id of one. It is safe for
// concurrent use.
type Webhooks struct {
	listener *listener

	mu    sync.Mutex
	count int64
	id    func(http.Header, []byte) (string, error)
	seen  map[string]struct{}
	err   error
}

// ListenWebhooks counts the POSTs that reach addr: HOST:PORT, a port alone, or nothing for any free
// port. Without a host it listens on 127.0.0.1 only. Each POST is answered with 204, and with 413
// if its body has more than 1 MiB. Call Close in the end.
func ListenWebhooks(addr string) (*Webhooks, error) {
	w := &Webhooks{seen: make(map[string]struct{})}
	var err error
	if w.listener, err = startListener(addr, http.HandlerFunc(w.serveWebhook)); err != nil {
		return nil, err
	}
	return w, nil
}

// Distinct counts webhooks of one id once: senders repeat a webhook whose answer was lost. by is a
// JSONPath that starts with $ and names one place in the body, or the name of a header field. Call
// it before the first webhook comes. A webhook without the id makes Count fail.
func (w *Webhooks) Distinct(by string) error {
	id := func(header http.Header, _ []byte) (string, error) {
		if value := header.Get(by); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("check: a webhook has no field %s", by)
	}
	if strings.HasPrefix(by, "$") {
		path, err := jsonpath.Parse(by)
		if err != nil {
			return fmt.Errorf("check: JSONPath %q: %w", by, err)
		}
		id = func(_ http.Header, body []byte) (string, error) { return webhookID(path, body) }
	} else if by == "" {
		return errors.New("check: the id of webhooks needs a JSONPath or the name of a field")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = id
	return nil
}

// URL returns the address to which the API has to send its webhooks. Any path counts.
func (w *Webhooks) URL() string { return w.listener.baseURL() }

// Count implements Oracle.
func (w *Webhooks) Count(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count, w.err
}

// String implements Oracle.
func (w *Webhooks) String() string { return "webhooks to " + w.URL() }

// Close ends the listener and waits for its requests.
func (w *Webhooks) Close() error { return w.listener.close() }

func (w *Webhooks) serveWebhook(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		http.Error(rw, "only POSTs are counted", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxWebhook))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(rw, "the webhook has more than 1 MiB", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		// the sender sees no answer, and may send it again
		panic(http.ErrAbortHandler)
	}
	w.countWebhook(r.Header, body)
	rw.WriteHeader(http.StatusNoContent)
}

func (w *Webhooks) countWebhook(header http.Header, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id != nil {
		id, err := w.id(header, body)
		if err != nil {
			w.err = err
			return
		}
		if _, again := w.seen[id]; again {
			return
		}
		w.seen[id] = struct{}{}
	}
	w.count++
}

// webhookID returns the value at path as text.
func webhookID(path *jsonpath.Path, body []byte) (string, error) {
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		return "", fmt.Errorf("check: a webhook has no JSON: %w", err)
	}
	nodes := path.Select(document)
	if len(nodes) != 1 || nodes[0] == nil {
		return "", fmt.Errorf("check: a webhook has %d values at %s and needs one", len(nodes), path)
	}
	id, err := json.Marshal(nodes[0])
	if err != nil {
		return "", fmt.Errorf("check: the id of a webhook: %w", err)
	}
	return string(id), nil
}
