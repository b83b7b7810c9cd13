package httpidem_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	stdlog "log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpidemtest"
)

// open starts the middleware before an origin, in a server of net/http.
func open(t *testing.T, origin http.Handler, s httpidemtest.Setup) string {
	t.Helper()
	e := retrysafe.New(s.Store, &retrysafe.Options{Policy: s.Policy, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	o := s.Guard
	if o.Credentials == nil {
		o.Credentials = new(httpidem.Credentials)
	}
	server := httptest.NewUnstartedServer(httpidem.New(e, &o).Handler(origin))
	server.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // the suite makes handlers panic
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
	return server.URL
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	httpidemtest.Run(t, open)
}

func TestBlackBoxHTTP2(t *testing.T) {
	t.Parallel()
	httpidemtest.RunHTTP2(t, open)
}
