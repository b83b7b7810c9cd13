package echoidem_test

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/echoidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpidemtest"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

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

// router returns a server of echo that logs nothing.
func router() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	return e
}

func open(t *testing.T, origin http.Handler, s httpidemtest.Setup) string {
	t.Helper()
	e := engine(t, s.Store, s.Policy)
	o := s.Guard
	if o.Credentials == nil {
		o.Credentials = new(httpidem.Credentials)
	}
	r := router()
	r.Use(echoidem.Middleware(httpidem.New(e, &o)))
	r.Any("/*", echo.WrapHandler(origin))
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
