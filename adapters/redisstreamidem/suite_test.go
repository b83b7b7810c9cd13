package redisstreamidem_test

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redisstreamidem.Options){
		"on demand": nil,
		"ahead":     func(o *redisstreamidem.Options) { o.Prefetch = 0 },
		"delete":    func(o *redisstreamidem.Options) { o.Delete = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mqtest.Run(t, mqtest.Config{Fill: fillFields, Queue: func(tb testing.TB) mqtest.Queue {
				tb.Helper()
				q := newQueue(tb, sharedRedis(tb).addr, change)
				return mqtest.Queue{
					Topic: q.o.Stream, Publisher: q.pub, DeadLetters: q.deadLetters(tb), Open: func(tb testing.TB) mqtest.Source { tb.Helper(); return q.open(tb) },
					LosePlace: func(tb testing.TB) { tb.Helper(); q.c.command(tb, "XGROUP", "DESTROY", q.o.Stream, q.o.Group) },
					Trim:      func(tb testing.TB) { tb.Helper(); q.c.command(tb, "XTRIM", q.o.Stream, "MAXLEN", "0") },
				}
			}})
		})
	}
}

// fillFields leaves no room for a reason: it sets as many fields as a script can pass on.
func fillFields(m *mqidem.Message) {
	for i := range 1997 {
		m.Headers[fmt.Sprint("header ", i)] = []byte("v")
	}
}
