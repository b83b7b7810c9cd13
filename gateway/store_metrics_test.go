package gateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// hangingStore is a store that does not answer while it hangs, and whose clock is ahead.
type hangingStore struct {
	*memstore.Store
	hangs   atomic.Bool
	ignores atomic.Bool // its context
	away    atomic.Bool
	ahead   atomic.Int64 // in nanoseconds
	release chan struct{}
}

func (s *hangingStore) wait(ctx context.Context) error {
	switch {
	case s.away.Load():
		return errors.New("away")
	case s.hangs.Load() && s.ignores.Load():
		<-s.release
		return errors.New("it came too late")
	case s.hangs.Load():
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *hangingStore) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := s.wait(ctx); err != nil {
		return storeapi.Record{}, err
	}
	rec, err := s.Store.Lookup(ctx, key)
	rec.Now = rec.Now.Add(time.Duration(s.ahead.Load()))
	return rec, err
}

func (s *hangingStore) List(ctx context.Context, r storeapi.ListRequest) (storeapi.Page, error) {
	if err := s.wait(ctx); err != nil {
		return storeapi.Page{}, err
	}
	return s.Store.List(ctx, r)
}

// TestFiguresWhileTheStoreHangs: a store that hangs, with its context or without it, delays a
// collection for a second at most. The doubts stay as they were last counted and grow older,
// and it is shown how old the figures are. When the store answers, so do the figures.
func TestFiguresWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &hangingStore{Store: memstore.New(nil), release: make(chan struct{})}
		m := gateway.NewMonitor(nil)
		m.WatchStore(s, "shop")
		m.WatchInDoubt(s)
		_, err := s.Acquire(t.Context(), storeapi.AcquireRequest{
			Key:   storeapi.StoreKey{Namespace: "shop", Layer: "gw", Key: retrysafe.Key{Operation: "pay", ID: "k"}},
			Owner: storeapi.Owner{1}, Lease: time.Second, Retention: time.Hour,
		})
		assert.NoError(t, err, "acquire")
		figures := func() string {
			var all []string
			for _, name := range []string{`retrysafe_doubts{age="5m"}`, "retrysafe_oldest_doubt_seconds", "retrysafe_doubts_stale_seconds", "retrysafe_store_silent_seconds"} {
				all = append(all, fmt.Sprint(metric(t, m.Handler(), name)))
			}
			return strings.Join(all, " ")
		}
		s.away.Store(true)
		time.Sleep(20 * time.Second)
		assert.Equal(t, figures(), "-1 -1 20 20", "never counted: no figure of doubts, and its age is known")
		s.away.Store(false)
		time.Sleep(41 * time.Second)
		assert.Equal(t, figures(), "1 60 0 0", "counted")
		for _, ignores := range []bool{false, true} {
			s.hangs.Store(true)
			s.ignores.Store(ignores)
			time.Sleep(time.Minute)
			begun := time.Now()
			got := figures() // four collections
			took := time.Since(begun)
			assert.True(t, took >= time.Second && took <= 4*time.Second, "collections of a store that hangs take %v", took)
			assert.True(t, strings.HasPrefix(got, "1 "), "the doubt is still shown: %s", got)
			assert.True(t, metric(t, m.Handler(), "retrysafe_store_silent_seconds") >= 60, "silent: %s", got)
			assert.True(t, metric(t, m.Handler(), "retrysafe_doubts_stale_seconds") >= 60, "stale: %s", got)
			assert.True(t, metric(t, m.Handler(), "retrysafe_oldest_doubt_seconds") >= 120, "it grows older: %s", got)
			time.Sleep(3 * time.Second)
			s.hangs.Store(false)
			if ignores {
				close(s.release)
			}
			time.Sleep(11 * time.Second)
			assert.Equal(t, metric(t, m.Handler(), "retrysafe_store_silent_seconds"), 0.0, "it answers again")
			assert.Equal(t, metric(t, m.Handler(), "retrysafe_doubts_stale_seconds"), 0.0, "it is counted again")
		}
	})
}

// TestClockDifference: the metric is the least by which the clocks differ.
func TestClockDifference(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &hangingStore{Store: memstore.New(nil)}
		m := gateway.NewMonitor(nil)
		m.WatchStore(s, "")
		for _, ahead := range []time.Duration{0, time.Hour, -time.Minute, 0} {
			s.ahead.Store(int64(ahead))
			time.Sleep(11 * time.Second)
			assert.Equal(t, metric(t, m.Handler(), "retrysafe_store_clock_difference_seconds"), ahead.Seconds(), "a clock that is %v ahead", ahead)
		}
	})
}

// TestCertificateFiles: of a file with several certificates, the first that expires counts. Files
// that are not read any more are not shown.
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := gateway.ReadCertificateFile("server", filepath.Join(dir, "none.pem"))
	assert.True(t, err != nil && strings.Contains(err.Error(), "none.pem"), "a file that is not there: %v", err)
	empty := filepath.Join(dir, "empty.pem")
	assert.NoError(t, os.WriteFile(empty, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), 0o600), "file")
	_, err = gateway.ReadCertificateFile("client_ca", empty)
	assert.True(t, err != nil && strings.Contains(err.Error(), "no certificate"), "a file without one: %v", err)
	early, late := time.Unix(1_900_000_000, 0), time.Unix(2_000_000_000, 0)
	both := filepath.Join(dir, "both.pem")
	assert.NoError(t, os.WriteFile(both, append(certificateUntil(t, late), certificateUntil(t, early)...), 0o600), "file")
	f, err := gateway.ReadCertificateFile("upstream_ca", both)
	assert.NoError(t, err, "two certificates")
	m := gateway.NewMonitor(nil)
	m.SetCertificateFiles([]gateway.CertificateFile{f, {Use: "server", File: "other.pem", Expires: late}})
	line := `retrysafe_certificate_expires_timestamp_seconds{file="` + both + `",use="upstream_ca"}`
	other := `retrysafe_certificate_expires_timestamp_seconds{file="other.pem",use="server"}`
	assert.Equal(t, metric(t, m.Handler(), line), 1.9e9, "the first that expires")
	assert.Equal(t, metric(t, m.Handler(), other), 2e9, "another file")
	m.SetCertificateFiles([]gateway.CertificateFile{f})
	assert.Equal(t, metric(t, m.Handler(), line), 1.9e9, "one that is read again")
	assert.Equal(t, metric(t, m.Handler(), other), -1.0, "one that is not read any more")
	(*gateway.Monitor)(nil).SetCertificateFiles(nil)
}

// certificateUntil returns a certificate that expires then.
func certificateUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err, "key")
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	assert.NoError(t, err, "certificate")
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestAnswersByClass: answers are counted by the class of their status, also those of a service
// that writes nothing, and so are connections that are cut and upstreams that cannot be reached.
func TestAnswersByClass(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(up.Close)
	m, e, gone := gateway.NewMonitor(nil), newEngine(t, memstore.New(nil), retrysafe.Policy{}), nobody(t)
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{gone, up.URL}, Monitor: m, Logger: slog.New(slog.DiscardHandler)})
	m.WatchUpstreams(gateway.NewLive(g))
	for _, path := range []string{"/", "/orders", "/refused", "/broken", "/broken"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
		assert.NoError(t, err, "request")
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "%s", path)
		_ = resp.Body.Close()
	}
	for class, want := range map[string]float64{"2xx": 2, "4xx": 1, "5xx": 2, "none": 0, "1xx": 0, "3xx": 0, "other": 0} {
		line := `retrysafe_answers_total{class="` + class + `",route="default"}`
		eventually(t, line, func() bool { return metric(t, m.Handler(), line) == want })
	}
	host := func(base string) string {
		return `retrysafe_upstream_failures_total{upstream="` + strings.TrimPrefix(base, "http://") + `"}`
	}
	assert.True(t, metric(t, m.Handler(), host(gone)) >= 1, "an address that nobody listens on")
	assert.Equal(t, metric(t, m.Handler(), host(up.URL)), 0.0, "one that is well")
}
