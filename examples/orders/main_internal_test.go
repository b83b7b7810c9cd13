package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// tell runs the program, and checks that it reports that everything happened once.
func tell(t *testing.T, args ...string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code := runProgram(t.Context(), append([]string{"-orders", "60"}, args...), &out, &errOut)
	assert.Equal(t, code, 0, "exit code; it said %s%s", out.String(), errOut.String())
	assert.Contains(t, out.String(), "60 orders, sent 120 times: 60 were placed", "what it tells")
	assert.Contains(t, out.String(), "redrive: 3 messages put back, 3 pieces taken", "what it tells")
	assert.Contains(t, out.String(), "everything happened once", "what it tells")
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	tell(t)
}

func TestServers(t *testing.T) {
	t.Parallel()
	postgres, redis, rabbit := servertest.StartPostgres(t), servertest.StartRedis(t), servertest.StartRabbitMQ(t)
	for range 2 { // the second run finds what the first has left
		tell(t, "-postgres", postgres.URL, "-redis", "redis://"+redis.Addr, "-rabbitmq", rabbit.VHost(t))
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"there are no arguments but flags": {"now"}, "20 or more": {"-orders", "3"}, "flag provided but not defined": {"-what"},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, runProgram(t.Context(), args, &out, &errOut), 2, "exit code of %q", args)
		assert.Contains(t, errOut.String(), want, "what is said of %q", args)
	}
	var out, errOut bytes.Buffer
	assert.Equal(t, runProgram(t.Context(), []string{"-h"}, &out, &errOut), 0, "exit code of -h")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, runProgram(gone, nil, &out, &errOut), 1, "exit code of a run that is interrupted")
	assert.Equal(t, runProgram(t.Context(), []string{"-postgres", "postgres://127.0.0.1:1/x?connect_timeout=1"}, &out, &errOut), 1, "exit code without the database")
}
