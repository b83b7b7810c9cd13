//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/internal/worktree"
)

// howTo is a section "Step by step" of a page of docs, and the servers that it needs.
type howTo struct{ page, section, servers string }

var howTos = map[string]howTo{
	"callbacks": {"httpsig.md", "payment callbacks", "postgres"},
	"forms":     {"browser.md", "a form", ""},
	"gin-redis": {"rpc.md", "gin and Redis", "redis"},
	"ids":       {"ids.md", "ids from a database", "postgres"},
	"locks":     {"locks.md", "a lock with a fence", "redis postgres"},
	"outbox":    {"outbox.md", "from PostgreSQL to RabbitMQ", "rabbitmq postgres"},
	"pgx-dotx":  {"stores.md", "DoTx with pgx", "postgres"},
	"rabbitmq":  {"messages.md", "a consumer of RabbitMQ", "rabbitmq redis"},
	"sharded":   {"stores.md", "sharded tables", "postgres"},
	"tokens":    {"browser.md", "one-time tokens", ""},
	"votes":     {"fingerprint.md", "one vote for each voter", "redis"},
}

const stepByStep = "Step by step: "

// elsewhere are sections that another test runs: TestGatewayPage, and those in adapters/kafkaidem
// and adapters/rocketmqidem.
var elsewhere = []string{"before a Node, Python or Java service", "a consumer of Kafka", "a consumer of RocketMQ"}

// TestHowToPages runs the sections "Step by step" of the pages to the letter, with the servers that
// they name on other ports: their programs are built and started, their commands send to them and
// stop them, and the output is the one that the page shows.
func TestHowToPages(t *testing.T) {
	t.Parallel()
	for name, h := range howTos {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := pagetest.Read(t, "../..", h.page, stepByStep+h.section, pageAddresses(t, name, h.servers)...)
			dir := worktree.New(t, "../..")
			self, err := os.Executable()
			assert.NoError(t, err, "executable")
			bin := t.TempDir()
			assert.NoError(t, os.Symlink(self, filepath.Join(bin, "retrysafe")), "link")
			pagetest.HowTo(t, page, dir, worktree.Env(dir, pagetest.Env(asCommand+"=1", "PATH="+bin+":"+os.Getenv("PATH"))...))
		})
	}
}

// TestHowToPagesAreRun: a test runs each section "Step by step".
func TestHowToPagesAreRun(t *testing.T) {
	t.Parallel()
	run := slices.Clone(elsewhere)
	for _, h := range howTos {
		run = append(run, h.section)
	}
	all, err := filepath.Glob("../../docs/*.md")
	assert.NoError(t, err, "pages")
	found := 0
	for _, path := range all {
		text, err := os.ReadFile(path) //nolint:gosec // a page of docs
		assert.NoError(t, err, "page")
		for _, m := range regexp.MustCompile(`(?m)^## `+stepByStep+`(.*)$`).FindAllStringSubmatch(string(text), -1) {
			found++
			assert.True(t, slices.Contains(run, m[1]), "%s: a test runs the section %s", path, m[1])
		}
	}
	assert.Equal(t, found, len(howTos)+len(elsewhere), "sections that a test runs")
}

// pageAddresses starts the servers of a page, and returns the addresses on the page and those of
// the test in turn.
func pageAddresses(t *testing.T, page, servers string) (pairs []string) {
	t.Helper()
	if strings.Contains(servers, "redis") {
		pairs = append(pairs, "127.0.0.1:6379/0", servertest.StartRedis(t, "--appendonly", "yes").Addr+"/0")
	}
	if strings.Contains(servers, "rabbitmq") {
		r := servertest.StartRabbitMQ(t)
		pairs = append(pairs, "amqp://127.0.0.1", "amqp://"+r.Addr, "http://127.0.0.1:15672", strings.TrimSuffix(r.Web(), "/api/"))
	}
	if strings.Contains(servers, "postgres") {
		// the ids of a server that forgets are not unique, and refused
		p := servertest.StartPostgres(t, "-c", "fsync=on", "-c", "full_page_writes=on")
		for _, sql := range []string{"CREATE ROLE app SUPERUSER LOGIN", "CREATE DATABASE shop OWNER app"} {
			said, err := exec.CommandContext(t.Context(), "psql", "-q", p.URL, "-c", sql).CombinedOutput()
			assert.NoError(t, err, "psql: %s", said)
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(p.URL, "postgres://retrysafe@"), "/")
		pairs = append(pairs, "app@127.0.0.1/", "app@"+host+"/")
	}
	if len(pairs) == 0 || page == "votes" || page == "gin-redis" || page == "callbacks" {
		pairs = append(pairs, "localhost:8080", "localhost:"+freePorts(t, 1)[0])
	}
	return pairs
}
