package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// accessLog is the destination of the access log.
type accessLog struct {
	path string // of the log file

	mu   sync.Mutex
	file *os.File
	dest io.Writer // nil: no access log
}

// openAccessLog opens off, stdout or a file.
func openAccessLog(name string, stdout io.Writer) (*accessLog, error) {
	switch name {
	case "off", "":
		return new(accessLog), nil
	case "stdout":
		return &accessLog{dest: stdout}, nil
	}
	l := &accessLog{path: name}
	return l, l.reopen()
}

// reopen opens the file again, after another program may have moved the old one.
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
	l.file, l.dest = f, f
	return nil
}

// Write implements [io.Writer]: it writes each line at once and whole.
func (l *accessLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dest.Write(p)
}

func (l *accessLog) newLogger() *slog.Logger {
	if l.dest == nil {
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
