package kafkaidem_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/internal/worktree"
)

// TestHowToPage runs the steps of docs/messages.md to the letter, on Kafka and PostgreSQL: the
// table is made, messages are sent, one of them twice, and the consumer is stopped as by Ctrl-C.
func TestHowToPage(t *testing.T) {
	t.Parallel()
	kafka, postgres := sharedKafka(t), servertest.StartPostgres(t)
	for _, sql := range []string{"CREATE ROLE app SUPERUSER LOGIN", "CREATE DATABASE shop OWNER app"} {
		said, err := exec.CommandContext(t.Context(), "psql", "-q", postgres.URL, "-c", sql).CombinedOutput()
		assert.NoError(t, err, "psql: %s", said)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(postgres.URL, "postgres://retrysafe@"), "/")
	page := pagetest.Read(t, "../..", "messages.md", "Step by step: a consumer of Kafka", "127.0.0.1:9092", kafka.ListenAddrs()[0], "app@127.0.0.1/", "app@"+host+"/")
	dir := worktree.New(t, "../..")
	pagetest.HowTo(t, page, dir, worktree.Env(dir, pagetest.Env()...))
}
