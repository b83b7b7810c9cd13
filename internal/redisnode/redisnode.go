// Package redisnode asks Redis servers what they are set to, for those who keep something there
// that must not get lost.
package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Do sends one command to a server.
type Do = func(ctx context.Context, cmd ...string) redisclient.Reply

// Node is what a server says of itself. What it does not let us ask is empty.
type Node struct {
	// Policy is its maxmemory-policy.
	Policy string
	// AOF is "1" where it keeps an append-only file, "0" where it keeps none; Fsync says when that
	// reaches the disk, and RewriteFsync "yes" that it does not while the file is written anew.
	AOF, Fsync, RewriteFsync string
	// RunID is of the server's process, and no other's.
	RunID string
	// Replicas is how many it has; -1 unknown.
	Replicas int
	major    int
}

// Look asks a server. Errors are those of the connection and of a server in trouble; that we may
// not ask is none.
func Look(ctx context.Context, do Do) (Node, error) {
	n := Node{Replicas: -1}
	for name, value := range map[string]*string{"maxmemory-policy": &n.Policy, "appendfsync": &n.Fsync, "no-appendfsync-on-rewrite": &n.RewriteFsync} {
		got, err := setting(ctx, do, name)
		if err != nil && !forbidden(err) {
			return n, err
		}
		*value = got
	}
	fields := map[string]string{}
	for _, section := range []string{"server", "persistence", "replication"} {
		r := do(ctx, "INFO", section)
		if r.Err != nil && forbidden(r.Err) {
			return n, nil
		}
		if r.Err != nil {
			return n, r.Err
		}
		text, _ := r.Value.(string)
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				fields[name] = value
			}
		}
	}
	n.AOF, n.RunID = fields["aof_enabled"], fields["run_id"]
	if replicas, err := strconv.Atoi(fields["connected_slaves"]); err == nil {
		n.Replicas = replicas
	}
	major, _, _ := strings.Cut(fields["redis_version"], ".")
	n.major, _ = strconv.Atoi(major)
	return n, nil
}

// Check says what is wrong with a server for those who need version 7 and that nothing is dropped:
// what would be, as "the record of work that is done, and a repeat would run it again".
func (n *Node) Check(allowEviction bool, what string) error {
	switch {
	case n.major > 0 && n.major < 7:
		return fmt.Errorf("the server is Redis %d; 7 or newer is needed", n.major)
	case n.Policy != "" && n.Policy != "noeviction" && !allowEviction:
		return fmt.Errorf("the server's maxmemory-policy is %s: it may drop %s; set noeviction, or AllowEviction if that is no harm", n.Policy, what)
	}
	return nil
}

// Forgets says how a server can lose what it has confirmed, where confirmed replicas have each
// write, and what to set; "": it cannot.
func (n *Node) Forgets(confirmed int) string {
	switch {
	case n.AOF != "1":
		return "the server keeps no append-only file, or does not tell (INFO): what it has confirmed " +
			"is gone when it is started again; set appendonly yes"
	case confirmed == 0 && n.Replicas != 0:
		return "writes are not confirmed by replicas, and the server has some, or does not tell (INFO): " +
			"what it has confirmed is gone after a failover; set Replicas"
	case confirmed == 0 && n.Fsync != "always":
		return "the server writes to its disk now and then only (appendfsync), and no replica confirms " +
			"writes: what it has confirmed last is gone after a crash; set appendfsync always, or Replicas"
	}
	return ""
}

// setting reads one.
func setting(ctx context.Context, do Do, name string) (string, error) {
	r := do(ctx, "CONFIG", "GET", name)
	if r.Err != nil {
		return "", r.Err
	}
	if pair, ok := r.Value.([]any); ok && len(pair) == 2 {
		if value, ok := pair[1].(string); ok {
			return value, nil
		}
	}
	return "", redisclient.Error("ERR no such setting")
}

// forbidden tells a server that does not let us ask from one that is in trouble.
func forbidden(err error) bool {
	var e redisclient.Error
	return errors.As(err, &e) && (e.Code() == "NOPERM" || e.Code() == "ERR")
}
