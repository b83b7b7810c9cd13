package servers

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// StartHostedRedis starts a server of the first kind; see RedisKind.StartHosted.
func StartHostedRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return RedisKinds[0].StartHosted(tb, args...)
}

// StartHosted starts a server as those of many hosts are: it has no CONFIG.
func (k *RedisKind) StartHosted(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return k.Start(tb, append([]string{"--rename-command", "CONFIG", ""}, args...)...)
}

// leastRights is the command of docs/stores.md that makes a user.
var leastRights = regexp.MustCompile("(?s)ACL SETUSER shop on '>PASSWORD' (.+?)```")

// LeastRights returns the rights that docs/stores.md says are enough.
func LeastRights(tb testing.TB) []string {
	tb.Helper()
	_, self, _, _ := runtime.Caller(0)
	page, err := os.ReadFile(filepath.Join(filepath.Dir(self), "../../../../docs/stores.md"))
	assert.NoError(tb, err, "docs/stores.md")
	found := leastRights.FindSubmatch(page)
	assert.True(tb, found != nil, "docs/stores.md has the line that makes a user")
	return strings.Fields(strings.NewReplacer("'", "", "\\", "").Replace(string(found[1])))
}

// AsUser makes a user of the server with some rights, and returns the URL with that user. In the
// rights rs:* stands for keys and channels, and becomes the prefix.
func (s *Redis) AsUser(tb testing.TB, name, prefix string, rights ...string) (url string) {
	tb.Helper()
	words := []any{"ACL", "SETUSER", name, "reset", "on", ">a-password"}
	for _, right := range rights {
		words = append(words, strings.Replace(right, "rs:", prefix, 1))
	}
	assert.Equal(tb, RedisDo(s.Addr, words...), "OK", "the user %s", name)
	return "redis://" + name + ":a-password@" + s.Addr
}
