package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// TestOnce: each notification counts once, however often it is sent, also if the shop is killed
// after it has counted one. A notification that was changed counts nothing.
func TestOnce(t *testing.T) {
	t.Parallel()
	keys, program := t.TempDir(), exampletest.Build(t, "./provider")
	provider := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), program, append([]string{"-keys", keys}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := provider("-init")
	assert.NoError(t, err, "make the keys: %s", out)
	p := exampletest.Start(t, "-keys", keys)
	paid := func(order, want string) {
		t.Helper()
		assert.Equal(t, p.Do(t, "GET", "/payments/"+order, "").Body, want+"\n", "order %s", order)
	}

	out, err = provider("-shop", "http://"+p.Addr, "-order", "16", "-forge")
	assert.NoError(t, err, "the provider says: %s", out)
	assert.Equal(t, strings.Count(out, ": 401 "), 9, "refusals in %s", out)
	paid("a16", "not paid")
	for range 2 {
		out, err = provider("-shop", "http://"+p.Addr, "-order", "17")
		assert.NoError(t, err, "the provider says: %s", out)
		assert.Equal(t, strings.Count(out, ": 200 OK"), 9, "acceptances in %s", out)
		assert.Equal(t, strings.Count(out, "200 OK success\n"), 3, "the word that Alipay expects in %s", out)
	}
	paid("a17", "paid with alipay, notifications: 1")
	paid("w17", "paid with wechatpay, notifications: 1")
	paid("s17", "paid with stripe, notifications: 1")

	p.Kill()
	p.Args("-pause", "10m")
	p.Restart(t)
	gone := make(chan error, 1)
	go func() {
		_, err := provider("-shop", "http://"+p.Addr, "-order", "18")
		gone <- err
	}()
	exampletest.Await(t, "one of the payments", func() bool {
		for _, order := range []string{"a18", "w18", "s18"} {
			if p.Do(t, "GET", "/payments/"+order, "").Body != "not paid\n" {
				return true
			}
		}
		return false
	})
	p.Kill()
	assert.True(t, <-gone != nil, "the provider gets no answer from the process that was killed")
	p.Args()
	p.Restart(t)
	exampletest.Await(t, "success for all, after the lease of the dead process", func() bool {
		out, err = provider("-shop", "http://"+p.Addr, "-order", "18", "-times", "1")
		return err == nil && strings.Count(out, ": 200 OK") == 3
	})
	paid("a18", "paid with alipay, notifications: 1")
	paid("w18", "paid with wechatpay, notifications: 1")
	paid("s18", "paid with stripe, notifications: 1")
	p.Stop(t)
}
