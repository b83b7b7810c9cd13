package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// maxOutput bounds what is kept of a command's output, in bytes. The end is kept.
const maxOutput = 64 << 10

// Command counts by a command that prints the number of effects, such as one that asks a database.
// The last whole number on the last line of its output counts. It is safe for concurrent use if the
// command is.
type Command struct {
	// Args are the program and its arguments. No shell reads them; for one, use sh -c.
	Args []string
}

// Count implements Oracle. If ctx ends the command is killed. A command that fails is an error with
// the end of what it wrote to its standard error.
func (c Command) Count(ctx context.Context) (int64, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return 0, errors.New("check: the command that counts has no program")
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) //nolint:gosec // the user names the command
	// a process that outlives the command would hold its output open
	cmd.WaitDelay = 10 * time.Second
	var out, errs outputTail
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return 0, fmt.Errorf("check: %s: %w%s", c.String(), err, errorOutput(errs.String()))
	}
	n, err := lastNumber(out.String())
	if err != nil {
		return 0, fmt.Errorf("check: %s %w%s", c.String(), err, errorOutput(errs.String()))
	}
	return n, nil
}

// String implements Oracle. It has the name of the program only: arguments may be secrets.
func (c Command) String() string {
	if len(c.Args) == 0 {
		return "a command"
	}
	name := filepath.Base(c.Args[0])
	if len(c.Args) == 3 && c.Args[1] == "-c" {
		// of a shell, the program that it starts
		for word := range strings.FieldsSeq(c.Args[2]) {
			if !strings.Contains(word, "=") {
				name = filepath.Base(word)
				break
			}
		}
	}
	return "the command " + name
}

// errorOutput is what a command wrote to its standard error, as the end of an error.
func errorOutput(text string) string {
	const most = 2048
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return "\n" + strings.ToValidUTF8(text, "")
}

// outputTail keeps the end of what is written to it.
type outputTail struct{ buf bytes.Buffer }

func (t *outputTail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, len(p)-maxOutput):]
	t.buf.Next(max(0, t.buf.Len()+len(p)-maxOutput))
	t.buf.Write(p)
	return n, nil
}

func (t *outputTail) String() string { return t.buf.String() }
