package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// far has servers with slow connections.
type far struct {
	deaf
	servers []server
}

// server has a clock offset and a delay in each direction.
type server struct{ off, there, back time.Duration }

func (s server) sendCommand(_ context.Context, cmd ...string) redisclient.Reply {
	switch cmd[0] {
	case "CONFIG":
		return redisclient.Reply{Value: []any{"maxmemory-policy", "noeviction"}}
	case "TIME":
		time.Sleep(s.there)
		now := time.Now().Add(s.off)
		time.Sleep(s.back)
		return redisclient.Reply{Value: []any{fmt.Sprint(now.Unix()), fmt.Sprint(now.Nanosecond() / 1000)}}
	}
	return redisclient.Reply{Err: redisclient.Error("NOPERM")}
}

func (f *far) EachPrimary(ctx context.Context, each func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	for _, s := range f.servers {
		if err := each(ctx, s.sendCommand); err != nil {
			return err
		}
	}
	return nil
}

// TestClocksByWayOfSlowLines: a slow reply says little about a clock. A difference that the delay
// can explain is not reported; a larger one is.
func TestClocksByWayOfSlowLines(t *testing.T) {
	t.Parallel()
	const line = 8 * time.Second
	for name, c := range map[string]struct {
		servers []server
		want    string // the reported difference; empty: none
	}{
		"slow there":                 {[]server{{0, line, 0}, {}}, ""},
		"slow back":                  {[]server{{0, 0, line}, {}}, ""},
		"slow to both":               {[]server{{0, line, 0}, {0, 0, line}}, ""},
		"hidden by the line":         {[]server{{5 * time.Second, 0, line}, {}}, ""},
		"more than the line, ahead":  {[]server{{12 * time.Second, 0, line}, {}}, "difference=4s"},
		"more than the line, behind": {[]server{{}, {-12 * time.Second, line, 0}}, "difference=4s"},
		"fast":                       {[]server{{}, {4 * time.Second, 0, 0}, {}}, "difference=4s"},
		"on both sides":              {[]server{{2 * time.Second, 0, 0}, {}, {-2 * time.Second, 0, 0}}, "difference=4s"},
		"within a tenth of a lease":  {[]server{{3 * time.Second, 0, 0}, {}}, ""},
		"one server":                 {[]server{{time.Hour, 0, 0}}, ""},
		"none":                       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				_, err := redisstore.New(t.Context(), &far{servers: c.servers}, &redisstore.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
				assert.NoError(t, err, "store")
				assert.Equal(t, strings.Contains(said.String(), "clocks of the servers differ"), c.want != "", "a warning: %s", &said)
				assert.Contains(t, said.String(), c.want, "what it says")
			})
		})
	}
}
