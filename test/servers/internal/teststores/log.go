package teststores

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log is a logger whose lines a test can read.
type Log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(p)
}

func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

// Logger returns a logger that writes to the log.
func (b *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
