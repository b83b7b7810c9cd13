package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// accessLog is where the lines of requests go.
type accessLog struct {
	path string // of a file

	mu   sync.Mutex
	file *os.File
	to   io.Writer // nil: nowhere
}

// openAccessLog opens off, stdout or a file.
func openAccessLog(name string, stdout io.Writer) (*accessLog, error) {
	switch name {
	case "off", "":
		return new(accessLog), nil
	case "stdout":
		return &accessLog{to: stdout}, nil
	}
	l := &accessLog{path: name}
	return l, l.reopen()
}

// reopen opens the file anew, so that another program may have moved the old one away.
func (l *accessLog) reopen() error {
	if l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("gateway: the access log cannot be opened: %w; choose another access_log", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.to = f, f
	return nil
}

// Write implements [io.Writer]: each line is written at once and whole.
func (l *accessLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func (l *accessLog) logger() *slog.Logger {
	if l.to == nil {
		return nil
	}
	return slog.New(slog.NewJSONHandler(l, nil))
}

// Close closes the file.
func (l *accessLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
