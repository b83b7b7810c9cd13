package redisclient_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/redisclient"
)

func TestUnknownScript(t *testing.T) {
	unknown := redisclient.Error("NOSCRIPT No matching script.")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{unknown, true},
		{fmt.Errorf("node a: %w", unknown), true},
		{redisclient.Error("READONLY You can't write against a read only replica."), false},
		{errors.New("NOSCRIPT is not what a server said here"), false},
	} {
		if got := (redisclient.Reply{Err: c.err}).UnknownScript(); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestPairs(t *testing.T) {
	got := redisclient.Pairs(map[string]any{"a": int64(1), "b": "two"})
	if len(got) != 4 {
		t.Fatalf("%v", got)
	}
	back := map[any]any{got[0]: got[1], got[2]: got[3]}
	if back["a"] != int64(1) || back["b"] != "two" {
		t.Errorf("%v", got)
	}
}
