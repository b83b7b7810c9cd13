package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// checkHealth requests a gateway's /healthz, for health checks in images that have no other
// program. It does not request /readyz: restarting a gateway because its service is unreachable
// would not help.
func checkHealth(ctx context.Context, admin string) error {
	if admin == "" {
		return &usageError{errors.New("gateway: --alive asks the address for operators, and there is none; give --admin")}
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return &usageError{err}
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return &usageError{err}
	}
	resp, err := new(http.Transport).RoundTrip(r) // direct, without the environment's proxy
	if err != nil {
		return fmt.Errorf("gateway: it does not answer: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: it answers %d", resp.StatusCode)
	}
	return nil
}
