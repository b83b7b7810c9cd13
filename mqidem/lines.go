package mqidem

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// lines is the log of a consumer. It has one line for each cause and minute, since a queue can have
// a million messages with one cause. A line says how many were left out since the last one.
type lines struct {
	mu   sync.Mutex
	said map[cause]*line
}

type cause struct{ text, why string }

type line struct {
	at   time.Time
	left int
}

const (
	perLine    = time.Minute
	mostCauses = 64 // of one consumer; beyond that, causes of one text count as one
)

// say logs a line, unless one with the same text and why was logged within a minute.
func (l *lines) say(log *slog.Logger, level slog.Level, text, why string, attrs ...slog.Attr) {
	left, ok := l.due(cause{text, why}, time.Now())
	if !ok {
		return
	}
	if left > 0 {
		attrs = append(attrs, slog.Int("lines_left_out", left))
	}
	log.LogAttrs(context.Background(), level, text, attrs...)
}

// warn is say with an error, which is the cause.
func (l *lines) warn(log *slog.Logger, text string, err error, attrs ...slog.Attr) {
	l.say(log, slog.LevelWarn, text, err.Error(), append([]slog.Attr{slog.Any("error", err)}, attrs...)...)
}

func (l *lines) due(c cause, now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = map[cause]*line{}
	}
	if l.said[c] == nil && len(l.said) >= mostCauses {
		for old, one := range l.said {
			if now.Sub(one.at) >= perLine {
				delete(l.said, old)
			}
		}
		if len(l.said) >= mostCauses {
			c.why = ""
		}
	}
	one := l.said[c]
	if one == nil {
		l.said[c] = &line{at: now}
		return 0, true
	}
	if now.Sub(one.at) < perLine {
		one.left++
		return 0, false
	}
	left, one.left, one.at = one.left, 0, now
	return left, true
}
