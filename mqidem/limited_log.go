package mqidem

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// limitedLog is the log of a consumer. It has one line for each cause and minute, since a queue can
// have a million messages with one cause. A line says how many were left out since the last one.
type limitedLog struct {
	mu      sync.Mutex
	entries map[logCause]*logEntry
}

type logCause struct{ text, why string }

type logEntry struct {
	at      time.Time
	leftOut int
}

const (
	lineInterval = time.Minute
	mostCauses   = 64 // of one consumer; beyond that, causes of one text count as one
)

// write logs a line, unless one with the same text and why was logged within a minute.
func (l *limitedLog) write(log *slog.Logger, level slog.Level, text, why string, attrs ...slog.Attr) {
	left, ok := l.allow(logCause{text, why}, time.Now())
	if !ok {
		return
	}
	if left > 0 {
		attrs = append(attrs, slog.Int("lines_left_out", left))
	}
	log.LogAttrs(context.Background(), level, text, attrs...)
}

// warn is write with an error, which is the cause.
func (l *limitedLog) warn(log *slog.Logger, text string, err error, attrs ...slog.Attr) {
	l.write(log, slog.LevelWarn, text, err.Error(), append([]slog.Attr{slog.Any("error", err)}, attrs...)...)
}

func (l *limitedLog) allow(c logCause, now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[logCause]*logEntry{}
	}
	if l.entries[c] == nil && len(l.entries) >= mostCauses {
		for old, one := range l.entries {
			if now.Sub(one.at) >= lineInterval {
				delete(l.entries, old)
			}
		}
		if len(l.entries) >= mostCauses {
			c.why = ""
		}
	}
	one := l.entries[c]
	if one == nil {
		l.entries[c] = &logEntry{at: now}
		return 0, true
	}
	if now.Sub(one.at) < lineInterval {
		one.leftOut++
		return 0, false
	}
	left, one.leftOut, one.at = one.leftOut, 0, now
	return left, true
}
