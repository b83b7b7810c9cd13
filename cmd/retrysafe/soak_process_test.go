package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// The gateway of a storm has short times, so that much happens in little time.
const (
	lease      = 2 * time.Second
	maxRun     = 2500 * time.Millisecond
	answerTime = 400 * time.Millisecond
	soakSecret = "0123456789abcdef0123456789abcdef"
)

// writeConfig prepares the files of the gateway.
func (s *soak) writeConfig(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	s.file, s.store, s.addr = filepath.Join(dir, "gateway.yaml"), "sqlite:"+filepath.Join(dir, "r.db"), "127.0.0.1:0"
	s.setLimits(t, lease, maxRun, answerTime)
}

// setLimits writes the configuration file with these times. The next start reads it.
func (s *soak) setLimits(t *testing.T, lease, maxRun, answerTime time.Duration) {
	t.Helper()
	policy := "refuse"
	if s.reexecute {
		policy = "reexecute"
	}
	text := fmt.Sprintf(`upstream: http://%s
store: %s
defaults: {tenant: global, key: required, on_doubt: %s, lease: %v, max_run: %v, timeout_answer: %v}
routes:
  - {match: "POST /patient", in_progress: "wait 1s"}
`, s.service.addr, s.store, policy, lease, maxRun, answerTime)
	assert.NoError(t, os.WriteFile(s.file, []byte(text), 0o600), "configuration")
}

// startGateway starts the gateway, always on the same address, and returns when it serves.
func (s *soak) startGateway(t *testing.T) {
	t.Helper()
	var said string
	for range 20 { // an outgoing connection may have the port briefly
		c := s.newCommand("gateway", "--namespace", "app", "--config", s.file, "--listen", s.addr)
		log := new(output)
		c.Stderr = io.MultiWriter(log, &s.log)
		out, err := c.StdoutPipe()
		assert.NoError(t, err, "pipe")
		assert.NoError(t, c.Start(), "start")
		s.process = c
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), "gateway: http://"); ok {
				if strings.HasSuffix(s.addr, ":0") {
					s.addr, _, _ = strings.Cut(rest, " ")
				}
				return
			}
		}
		_ = c.Wait()
		if said = log.String(); !strings.Contains(said, "address already in use") {
			break
		}
		sleepFor(t.Context(), 100*time.Millisecond)
	}
	t.Fatalf("the gateway did not start:\n%s", said)
}

// killGateway ends the gateway as a power cut would.
func (s *soak) killGateway() {
	killProcess(s.process)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, time.Now())
}

func (s *soak) newCommand(args ...string) *exec.Cmd {
	c := newCommand(s.t, args...)
	// The race detector would take a second to exit.
	c.Env = append(c.Env, "RETRYSAFE_SECRET="+soakSecret, "GORACE=atexit_sleep_ms=0")
	return c
}

// doubt is a line of keys list.
type doubt struct {
	Hash, State, Cause string
	Fence              uint64
}

// listDoubts runs keys list, while the gateway runs on the same file.
func (s *soak) listDoubts(t *testing.T) map[string]doubt {
	t.Helper()
	out, err := s.newCommand("keys", "list", "--store", s.store, "--in-doubt", "--json").Output()
	assert.NoError(t, err, "keys list")
	all := map[string]doubt{}
	for text := range strings.Lines(string(out)) {
		var d doubt
		assert.NoError(t, json.Unmarshal([]byte(text), &d), "line %s", text)
		all[d.Hash] = d
	}
	return all
}

// runResolve resolves one doubt with the command.
func (s *soak) runResolve(d doubt, args ...string) {
	args = append([]string{"keys", args[0], d.Hash, "--store", s.store, "--fence", fmt.Sprint(d.Fence), "--reason", "the soak test"}, args[1:]...)
	if out, err := s.newCommand(args...).CombinedOutput(); err != nil {
		s.report(doubts, "%v: %v, %s", args, err, out)
	}
}

// givenAnswer returns what a duplicate gets if an operator gave the answer.
func givenAnswer(body string) *answer {
	return &answer{status: 201, fields: "Content-Type[application/json]", size: int64(len(body)), sum: sha256.Sum256([]byte(body))}
}
