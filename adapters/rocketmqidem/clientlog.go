package rocketmqidem

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// clientLog is the client's log, which is one for the process. Otherwise the client writes to the
// standard error. Its errors become warnings, since it tries again what fails; the rest is for
// debugging.
type clientLog struct{ to atomic.Pointer[slog.Logger] }

var sharedLog clientLog

// The client reads the variable that this sets without a lock, so it is set before anything runs.
func init() { rlog.SetLogger(&sharedLog) }

// use makes the client's log go to l.
func (c *clientLog) use(l *slog.Logger) { c.to.Store(l) }

func (c *clientLog) write(level slog.Level, text string, fields map[string]any) {
	l := c.to.Load()
	if l == nil || text == "" || !l.Enabled(context.Background(), level) {
		return
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	args := make([]any, 0, 2*len(fields))
	for _, name := range names {
		args = append(args, name, fields[name])
	}
	l.With("client", "rocketmq").Log(context.Background(), level, "rocketmqidem: "+text, args...)
}

func (c *clientLog) Debug(string, map[string]any) { /* it is one line for each call */ }

func (c *clientLog) Info(text string, fields map[string]any) { c.write(slog.LevelDebug, text, fields) }

func (c *clientLog) Warning(text string, fields map[string]any) {
	c.write(slog.LevelDebug, text, fields)
}

// Error is for debugging if it says that a topic is missing: that is an error of the call, and
// [Create] asks for topics that are not there yet.
func (c *clientLog) Error(text string, fields map[string]any) {
	level := slog.LevelWarn
	if text == "queryTopicRouteInfoFromServer failed" {
		level = slog.LevelDebug
	}
	c.write(level, text, fields)
}

func (c *clientLog) Fatal(text string, fields map[string]any) { c.write(slog.LevelWarn, text, fields) }
func (c *clientLog) Level(string)                             {}
func (c *clientLog) OutputPath(string) error                  { return nil }
