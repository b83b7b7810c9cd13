package check_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// TestAddressIsSaidOnce: the error of a host that is written as an address does not say it twice.
func TestAddressIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, address, want string }{
		{"192.0.2.1", "192.0.2.1", "192.0.2.1 is not an address of the loopback interface"},
		{"shop.example", "192.0.2.1", "shop.example has the address 192.0.2.1, which is not an address of the loopback interface"},
		{"0.0.0.0", "0.0.0.0", "0.0.0.0 stands for all addresses of this machine; write localhost"},
		{"::", "::", ":: stands for all addresses of this machine; write localhost"},
	} {
		err := &check.HostError{Host: c.host, Address: c.address}
		assert.Contains(t, err.Error(), c.want, "error")
	}
	_, err := check.Examine(t.Context(), check.Target{Request: check.Request{URL: "http://192.0.2.1/", Body: []byte("{}")}}, nil)
	assert.True(t, err != nil && !strings.Contains(err.Error(), "did not answer"), "nothing was sent: %v", err)
}

// TestOwnAddress: the checker does not examine its own listener, and its proxy does not forward to
// itself.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	webhooks, err := check.ListenWebhooks("")
	assert.NoError(t, err, "webhooks")
	t.Cleanup(func() { _ = webhooks.Close() })
	proxy, err := check.ListenProxy("", server.URL)
	assert.NoError(t, err, "proxy")
	t.Cleanup(func() { _ = proxy.Close() })
	for _, oracle := range []interface {
		check.Oracle
		URL() string
	}{webhooks, proxy} {
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(oracle.URL(), "http://"))
		for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "0.0.0.0"} {
			target := check.Target{Request: check.Request{URL: "http://" + host + ":" + port + "/orders"}, Oracle: oracle}
			err := check.Validate(target, nil)
			assert.True(t, err != nil && strings.Contains(err.Error(), "the checker itself listens"), "%s: %v", host, err)
		}
		target := check.Target{Request: check.Request{URL: server.URL}, Oracle: oracle}
		assert.NoError(t, check.Validate(target, nil), "the API")
	}
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	_, err = check.ListenProxy(port, "http://localhost:"+port+"/v1")
	assert.True(t, err != nil && strings.Contains(err.Error(), "to itself"), "a proxy to itself: %v", err)
	again, err := check.ListenProxy(port, server.URL)
	assert.NoError(t, err, "the port is free again")
	assert.NoError(t, again.Close(), "close")
}
