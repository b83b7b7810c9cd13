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

// TestSendMany: calls with an unknown script are sent once more with the source, and the others are
// not.
func TestSendMany(t *testing.T) {
	t.Parallel()
	for _, unknown := range [][]int{nil, {1, 3}, {0, 1, 2, 3}} {
		var sent []string
		redisclient.SendMany(4, func(whole bool, places []int) []int {
			sent = append(sent, fmt.Sprint(whole, places))
			return unknown
		})
		want := []string{"false [0 1 2 3]"}
		if unknown != nil {
			want = append(want, fmt.Sprint("true ", unknown))
		}
		if fmt.Sprint(sent) != fmt.Sprint(want) {
			t.Errorf("unknown %v: sent %v, want %v", unknown, sent, want)
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
