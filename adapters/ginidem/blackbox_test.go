package ginidem_test

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/ginidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpidemtest"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	m.Run()
}

// serve starts a server of HTTP/1.1 and HTTP/2.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the suite makes handlers panic
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func engine(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
	return e
}

// now is gin's writer as handlers of net/http expect it: fields that are set after WriteHeader are
// not sent.
type now struct{ gin.ResponseWriter }

func (n now) WriteHeader(status int) {
	n.ResponseWriter.WriteHeader(status)
	if status >= 200 {
		n.WriteHeaderNow()
	}
}

func (n now) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func open(t *testing.T, origin http.Handler, s httpidemtest.Setup) string {
	t.Helper()
	e := engine(t, s.Store, s.Policy)
	o := s.Guard
	if o.Credentials == nil {
		o.Credentials = new(httpidem.Credentials)
	}
	r := gin.New()
	r.Use(ginidem.Middleware(httpidem.New(e, &o)))
	r.Any("/*any", func(c *gin.Context) { origin.ServeHTTP(now{c.Writer}, c.Request) })
	return serve(t, r)
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	httpidemtest.Run(t, open)
}

func TestBlackBoxHTTP2(t *testing.T) {
	t.Parallel()
	httpidemtest.RunHTTP2(t, open)
}
