package filter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// server always gives the same reply, and records its calls. The integration tests use real
// servers.
type server struct {
	says  redisclient.Reply
	asked []redisclient.Call
}

func (s *server) Eval(_ context.Context, c redisclient.Call) redisclient.Reply {
	s.asked = append(s.asked, c)
	return s.says
}

// TestRedisAnswers: no id is surely new unless the server's reply is the answer of a script that
// found the filter whole.
func TestRedisAnswers(t *testing.T) {
	t.Parallel()
	for _, says := range []redisclient.Reply{
		{Err: errors.New("connection reset")},
		{Err: redisclient.Error("OOM command not allowed")},
		{Err: redisclient.Error("RSFORMAT another")},
		{Err: redisclient.Error("NOPERM no")},
		{Err: redisclient.Error("WRONGTYPE no")},
		{Value: nil},
		{Value: int64(1)},
		{Value: ""},
		{Value: "w"},
		{Value: "w11"},
		{Value: "x1"},
		{Value: "p1"},
	} {
		s := &server{says: says}
		log, _ := logTo()
		b, err := filter.NewRedisBloom(s, "orders", &filter.Options{Items: 100, Logger: log})
		assert.NoError(t, err, "a filter")
		h, err := filter.NewRedisHyperLogLog(s, "orders h", &filter.Options{Logger: log})
		assert.NoError(t, err, "a sketch")
		partly := says.Value == any("p1")
		isNew, err := b.Add(t.Context(), id(1))
		assert.True(t, !isNew && (err == nil) == partly, "%v: %v, %v", says, isNew, err)
		isNew, err = h.Add(t.Context(), id(1))
		assert.True(t, !isNew && (err == nil) == partly, "%v: %v, %v", says, isNew, err)
		maybe, err := b.MaybeSeen(t.Context(), id(1))
		assert.True(t, maybe && (err == nil) == partly, "%v: %v, %v", says, maybe, err)
		_, err = b.Stats(t.Context())
		assert.True(t, err != nil, "%v: stats", says)
		for _, c := range s.asked {
			assert.True(t, len(c.Keys) == 1 && strings.HasPrefix(c.Keys[0], "rs-filter:{orders"), "keys %v", c.Keys)
		}
	}
	s := &server{says: redisclient.Reply{Value: "w1"}}
	b, err := filter.NewRedisBloom(s, "orders", &filter.Options{Items: 100})
	assert.NoError(t, err, "a filter")
	isNew, err := b.Add(t.Context(), id(1))
	assert.True(t, isNew && err == nil, "and the right answer is one: %v", err)
	none, err := b.AddBatch(t.Context(), nil)
	assert.True(t, len(none) == 0 && err == nil && len(s.asked) == 1, "no ids, no call")
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func() error{
		"a client is needed": func() error { _, err := filter.NewRedisBloom(nil, "a", &filter.Options{Items: 1}); return err },
		"no braces":          func() error { _, err := filter.NewRedisBloom(&server{}, "a}", &filter.Options{Items: 1}); return err },
		"1 to 512 bytes":     func() error { _, err := filter.NewRedisHyperLogLog(&server{}, "", nil); return err },
		"Items is 0":         func() error { _, err := filter.NewRedisBloom(&server{}, "a", nil); return err },
		"whole milliseconds": func() error {
			_, err := filter.NewRedisHyperLogLog(&server{}, "a", &filter.Options{Window: time.Millisecond + 1})
			return err
		},
		"Prefix has a brace": func() error {
			_, err := filter.NewRedisBloom(&server{}, "a", &filter.Options{Items: 1, Prefix: "{"})
			return err
		},
	} {
		err := f()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
	}
}
