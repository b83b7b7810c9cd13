// Package redisnode is what packages that must not lose what they store in Redis share: it asks
// servers for their configuration, waits for their replicas, and explains what they refuse.
package redisnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Do sends one command to a server.
type Do = func(ctx context.Context, cmd ...string) redisclient.Reply

// Node is what a server reports about itself. Fields that the server does not let us read are
// empty.
type Node struct {
	// Policy is its maxmemory-policy.
	Policy string
	// AOF is "1" if the server has an append-only file, "0" if not. Fsync says when it is flushed
	// to the disk. RewriteFsync is "yes" if it is not flushed during a rewrite of the file.
	AOF, Fsync, RewriteFsync string
	// RunID identifies the server's process.
	RunID string
	// Replicas is the number of replicas; -1: unknown.
	Replicas int
	major    int
}

// Look asks a server. It returns errors of the connection and of a server in trouble. A command
// that the server refuses to this user, or does not have, is not an error: many hosted servers have
// no CONFIG. Then INFO says what it can, the policy among it.
func Look(ctx context.Context, do Do) (Node, error) {
	n := Node{Replicas: -1}
	for name, value := range map[string]*string{"maxmemory-policy": &n.Policy, "appendfsync": &n.Fsync, "no-appendfsync-on-rewrite": &n.RewriteFsync} {
		got, err := readSetting(ctx, do, name)
		if err != nil && !isForbidden(err) {
			return n, err
		}
		*value = got
	}
	fields := map[string]string{}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		r := do(ctx, "INFO", section)
		if r.Err != nil && isForbidden(r.Err) {
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
	n.Policy = cmp.Or(n.Policy, fields["maxmemory_policy"])
	if replicas, err := strconv.Atoi(fields["connected_slaves"]); err == nil {
		n.Replicas = replicas
	}
	major, _, _ := strings.Cut(fields["redis_version"], ".")
	n.major, _ = strconv.Atoi(major)
	return n, nil
}

// Check returns what is wrong with a server for a caller that needs version 7 and no evictions.
// what says what an eviction would lose, for example "the record of work that is done".
func (n *Node) Check(allowEviction bool, what string) error {
	switch {
	case n.major > 0 && n.major < 7:
		return fmt.Errorf("the server is Redis %d; 7 or newer is needed", n.major)
	case n.Policy != "" && n.Policy != "noeviction" && !allowEviction:
		return fmt.Errorf("the server's maxmemory-policy is %s: it may drop %s; set noeviction, or AllowEviction if that is no harm", n.Policy, what)
	}
	return nil
}

// Forgets returns how a server can lose confirmed writes, if confirmed replicas have each write,
// and what to configure; "": it cannot.
func (n *Node) Forgets(confirmed int) string {
	switch {
	case n.AOF != "1":
		return "the server keeps no append-only file, or does not tell (INFO): what it has confirmed " +
			"is gone when it is started again; set appendonly yes"
	case confirmed == 0 && n.Replicas != 0:
		return "writes are not confirmed by replicas, and the server has some, or does not tell (INFO): " +
			"what it has confirmed is gone after a failover; set Replicas"
	case confirmed == 0 && n.Fsync == "":
		return "the server does not tell when it writes to its disk (CONFIG GET appendfsync), and no replica " +
			"confirms writes: what it has confirmed last may be gone after a crash; let the user ask, or set Replicas"
	case confirmed == 0 && n.Fsync != "always":
		return "the server writes to its disk now and then only (appendfsync), and no replica confirms " +
			"writes: what it has confirmed last is gone after a crash; set appendfsync always, or Replicas"
	}
	return ""
}

// readSetting reads one setting.
func readSetting(ctx context.Context, do Do, name string) (string, error) {
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

// isForbidden reports whether the server refused the question, as opposed to being in trouble.
func isForbidden(err error) bool {
	var e redisclient.Error
	return errors.As(err, &e) && (e.Code() == "NOPERM" || e.Code() == "ERR")
}
