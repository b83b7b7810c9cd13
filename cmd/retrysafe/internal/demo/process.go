package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// process is this program run again with other arguments, so that it can really be killed. It
// always listens on the same address.
type process struct {
	name string
	args []string
	addr string
	// says is in the line that the process prints when it listens. Another program may listen on
	// the address, if it took the port first. Empty: it prints no such line.
	readyText string
	log       *outputTail

	// before prepares a start; nil: there is nothing to prepare.
	before func(context.Context) error

	mu      sync.Mutex
	cmd     *exec.Cmd
	exited  chan struct{}
	listens bool // it has been seen to listen
}

// patience is how long a process may take for something that is immediate on any machine that is
// not overloaded. Nothing else runs meanwhile.
const patience = 2 * time.Minute

// restart ends the process and starts it with further arguments, for this time only.
func (p *process) restart(ctx context.Context, further ...string) error {
	p.kill()
	return p.startWith(ctx, slices.Concat(p.args, further))
}

// start starts the process and waits until it listens.
func (p *process) start(ctx context.Context) error { return p.startWith(ctx, p.args) }

func (p *process) startWith(ctx context.Context, args []string) error {
	if p.before != nil {
		if err := p.before(ctx); err != nil {
			return fmt.Errorf("demo: cannot start the %s: %w", p.name, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	cmd := exec.Command(self, args...) //nolint:gosec,noctx // this very program; the demo kills it
	dieWithParent(cmd)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	before := p.log.lineCount()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("demo: cannot start the %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	p.mu.Lock()
	p.cmd, p.exited, p.listens = cmd, exited, false
	p.mu.Unlock()
	if err := p.awaitListening(ctx, exited, before); err != nil {
		p.kill()
		return err
	}
	p.mu.Lock()
	p.listens = true
	p.mu.Unlock()
	return nil
}

// awaitListening waits until the process listens. before is how many lines its log had before it
// started.
func (p *process) awaitListening(ctx context.Context, exited <-chan struct{}, before int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", p.addr)
		if err == nil {
			_ = c.Close()
			if p.log.hasLine(before, p.readyText) {
				return nil
			}
		}
		select {
		case <-exited:
			return fmt.Errorf("demo: the %s ended at once:\n%s", p.name, p.log)
		case <-ctx.Done():
			return fmt.Errorf("demo: the %s does not listen on %s:\n%s", p.name, p.addr, p.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-exited
}

// running returns the id of the process, which a dead one keeps, and reports whether it lives and
// listens.
func (p *process) running() (pid int, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, false
	}
	select {
	case <-p.exited:
		return p.cmd.Process.Pid, false
	default:
		return p.cmd.Process.Pid, p.listens
	}
}

// awaitDeath waits until the process has ended by itself.
func (p *process) awaitDeath(ctx context.Context) error {
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	select {
	case <-exited:
		return nil
	case <-time.After(patience):
		return errors.New("demo: the " + p.name + " did not crash where it should")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outputTail keeps the last lines of a process's output, in case it fails.
type outputTail struct {
	mu      sync.Mutex
	lines   []string
	dropped int    // lines before these
	partial []byte // of a line that has not ended
}

func newOutputTail() *outputTail { return new(outputTail) }

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, p...)
	for {
		line, rest, ok := bytes.Cut(t.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		t.lines, t.partial = append(t.lines, string(line)), rest
		if len(t.lines) > 20 {
			t.lines = t.lines[1:]
			t.dropped++
		}
	}
}

// lineCount returns how many lines there were so far.
func (t *outputTail) lineCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped + len(t.lines)
}

// hasLine reports whether a line after the first n contains part, and true for an empty part.
func (t *outputTail) hasLine(n int, part string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	later := t.lines[min(max(0, n-t.dropped), len(t.lines)):]
	return part == "" || slices.ContainsFunc(later, func(line string) bool { return strings.Contains(line, part) })
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := ""
	for _, l := range t.lines {
		out += "  " + l + "\n"
	}
	return out
}
