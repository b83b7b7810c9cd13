//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/internal/worktree"
)

// TestHowToPages runs the how-to pages to the letter, with the servers that they name on other
// ports: their programs are built and started, their commands send to them and stop them, and the
// output is the one that the page shows. (The page of the gateway has TestGatewayPage, the one of
// Kafka a test in adapters/kafkaidem.)
func TestHowToPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{ // the servers of a page
		"forms": "", "tokens": "", "votes": "redis", "gin-redis": "redis", "ids": "postgres", "locks": "redis postgres", "payment-callbacks": "postgres",
		"pgx-dotx": "postgres", "sharded-tables": "postgres", "outbox-rabbitmq": "rabbitmq postgres", "rabbitmq-consumer": "rabbitmq redis",
	}
	all, err := filepath.Glob("../../docs/howto/*[a-z].md")
	assert.NoError(t, err, "pages")
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		needs, ours := pages[name]
		if strings.HasSuffix(name, "zh-CN") || name == "gateway" || name == "kafka-consumer" {
			continue
		}
		assert.True(t, ours, "the page %s has its servers in this test", name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := pagetest.Read(t, "../..", "howto/"+name+".md", addresses(t, name, needs)...)
			dir := worktree.New(t, "../..")
			self, err := os.Executable()
			assert.NoError(t, err, "executable")
			bin := t.TempDir()
			assert.NoError(t, os.Symlink(self, filepath.Join(bin, "retrysafe")), "link")
			pagetest.HowTo(t, page, dir, worktree.Env(dir, pagetest.Env(asCommand+"=1", "PATH="+bin+":"+os.Getenv("PATH"))...))
		})
	}
}

// addresses starts the servers of a page, and returns the addresses on the page and those of the
// test in turn.
func addresses(t *testing.T, page, servers string) (pairs []string) {
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
	if len(pairs) == 0 || page == "votes" || page == "gin-redis" || page == "payment-callbacks" {
		pairs = append(pairs, "localhost:8080", "localhost:"+freePorts(t, 1)[0])
	}
	return pairs
}
