package redisstore

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// TestScriptsOfNginx: what nginx has Redis run are the scripts of this store, to the letter.
func TestScriptsOfNginx(t *testing.T) {
	t.Parallel()
	const file = "../deploy/nginx/retrysafe/scripts.lua"
	var b strings.Builder
	b.WriteString("-- Made of redisstore/lua by UPDATE=1 go test -run TestScriptsOfNginx ./redisstore; not changed by hand.\nreturn {\n")
	for _, s := range []*redisclient.Script{acquire, complete, release, lookup} {
		assert.True(t, !strings.Contains(s.Source, "]==]") && !strings.Contains(s.Source, "\r"), "%s can be quoted", s.Name)
		b.WriteString(s.Name + " = {source = [==[\n" + s.Source + "]==]},\n")
	}
	b.WriteString("}\n")
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644), "write")
	}
	got, err := os.ReadFile(file)
	assert.NoError(t, err, "scripts of nginx")
	assert.Equal(t, string(got), b.String(), "scripts.lua; UPDATE=1 makes it anew")
}
