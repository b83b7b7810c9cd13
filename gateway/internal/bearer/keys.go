package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// When the keys of an address are fetched again.
const (
	keysGood   = 15 * time.Minute // how long keys are used without a new fetch
	keysUsable = 24 * time.Hour   // how long while the address does not answer
	keysPause  = 10 * time.Second // least time between two fetches, whatever callers send
	keysTime   = 5 * time.Second  // timeout of a fetch
	mostKeys   = 1 << 20          // bytes
)

// keySet has the public keys of an issuer (RFC 7517), from a file or from an address. It is safe
// for concurrent use.
type keySet struct {
	address string // empty: a file, read once
	host    string // of the address, for errors: a query may have a secret
	client  *http.Client
	now     func() time.Time

	mu         sync.Mutex
	keys       []jose.JSONWebKey
	fetched    time.Time // when keys were fetched
	tried      time.Time
	failure    error         // of the last fetch; nil: it had keys
	refreshing chan struct{} // closed when the current fetch has ended
}

// newKeySet reads a file at once. It does not fetch an address until the first token arrives.
func newKeySet(from string) (*keySet, error) {
	if !strings.Contains(from, "://") {
		text, err := os.ReadFile(from) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, err
		}
		keys, err := parseKeys(text)
		return &keySet{keys: keys, now: time.Now}, err
	}
	u, err := url.Parse(from)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return nil, errors.New("jwks is neither a file nor an address such as https://login.example/keys")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, errors.New("jwks has to be https, or anyone on the line could name every caller")
	}
	if known, ok := keySets.Load(from); ok {
		return known.(*keySet), nil //nolint:errcheck // it holds nothing else
	}
	client := &http.Client{Timeout: keysTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != u.Scheme || len(via) > 3 {
			return errors.New("redirected too often, or away from TLS")
		}
		return nil
	}}
	known, _ := keySets.LoadOrStore(from, &keySet{address: from, host: u.Host, client: client, now: time.Now})
	return known.(*keySet), nil //nolint:errcheck // it holds nothing else
}

// keySets are the key sets of this process by address: a configuration that is reloaded continues
// with the keys that are there.
var keySets sync.Map

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// parseKeys returns the keys that sign; the set may have others.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("this is no set of keys (RFC 7517): " + describeSetError(err))
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.Use != "" && k.Use != "sig" {
			// ignore keys of an unknown kind, as the standard says, and keys for another use
			continue
		}
		if _, symmetric := k.Key.([]byte); symmetric || !k.IsPublic() {
			return nil, errors.New("the set has a secret or private key; give the public ones alone")
		}
		if k.Valid() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the set has no public key that signs")
	}
	return keys, nil
}

// describeSetError describes an error without its text, which may quote the set.
func describeSetError(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf("no JSON at byte %d", syntax.Offset)
	}
	return "it has no list of keys"
}

// findKey returns the key with an id, or nil if there is none. A token without an id uses the only
// key there is. The error says why the keys could not be fetched.
func (s *keySet) findKey(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	for try := 0; ; try++ {
		s.mu.Lock()
		key, age := s.matchKnown(id), s.now().Sub(s.fetched)
		fresh := s.address == "" || key != nil && age < keysGood
		if fresh || try > 0 || s.refreshing == nil && s.now().Sub(s.tried) < keysPause && !s.tried.IsZero() {
			usable, failure := s.address == "" || age < keysUsable, s.failure
			s.mu.Unlock()
			if !usable {
				return nil, fmt.Errorf("the keys of the issuer cannot be fetched from %s: %w", s.host, failure)
			}
			return key, nil
		}
		if s.refreshing == nil {
			s.refreshing, s.tried = make(chan struct{}), s.now()
			go s.refresh(s.refreshing)
		}
		asking := s.refreshing
		s.mu.Unlock()
		if key != nil && age < keysUsable {
			return key, nil // still usable; the next call may find newer keys
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// matchKnown returns a key among those that are known. The caller holds mu.
func (s *keySet) matchKnown(id string) *jose.JSONWebKey {
	if id == "" && len(s.keys) == 1 {
		return &s.keys[0]
	}
	for i := range s.keys {
		if id != "" && s.keys[i].KeyID == id {
			return &s.keys[i]
		}
	}
	return nil
}

// refresh fetches the keys. If the answer is unusable, the known keys stay.
func (s *keySet) refresh(done chan struct{}) {
	keys, err := s.fetch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	}
	s.refreshing = nil
	close(done)
}

func (s *keySet) fetch() ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keysTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // without the address once more
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status of the answer is %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostKeys))
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}
