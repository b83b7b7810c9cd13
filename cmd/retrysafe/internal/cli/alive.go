package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// alive asks a gateway's /healthz, for health checks in images that have no other program. It does
// not ask /readyz: to start a gateway anew because its service is away would help nobody.
func alive(ctx context.Context, admin string) error {
	if admin == "" {
		return &usageError{errors.New("gateway: --alive asks the address for operators, and there is none; give --admin")}
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return &usageError{err}
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on every address
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return &usageError{err}
	}
	resp, err := new(http.Transport).RoundTrip(r) // straight, whatever proxy the environment names
	if err != nil {
		return fmt.Errorf("gateway: it does not answer: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: it answers %d", resp.StatusCode)
	}
	return nil
}
