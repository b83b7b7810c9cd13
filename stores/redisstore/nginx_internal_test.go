package redisstore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// TestScriptsOfNginx: the scripts that nginx sends to Redis are exactly those of this store.
func TestScriptsOfNginx(t *testing.T) {
	t.Parallel()
	const file = "../../deploy/nginx/retrysafe/scripts.lua"
	var b strings.Builder
	piece := func(lua string) string {
		assert.True(t, !strings.Contains(lua, "]==]") && !strings.Contains(lua, "\r"), "this can be quoted: %s", lua)
		return "[==[\n" + lua + "]==]"
	}
	b.WriteString("-- Made of stores/redisstore/lua by UPDATE=1 go test -run TestScriptsOfNginx ./redisstore; not changed by hand. The digests are those of the\n" +
		"-- scripts in Go, which store.lua compares.\n" +
		"local head = " + piece(timeLua+"local later\n"+headLua) + "\nlocal lib = " + piece(libLua) + "\nreturn {\n")
	for _, s := range []struct {
		*redisclient.Script
		first, rest string
	}{
		{acquire, acquireFirst, acquireLua},
		{complete, completeFirst, completeLua},
		{release, "", releaseLua},
		{lookup, "", lookupLua},
	} {
		shebang, _, _ := strings.Cut(s.Source, "\n")
		fmt.Fprintf(&b, "  %s = {\n    sha1 = %q,\n    source = %q .. head .. %s .. lib .. %s,\n  },\n", s.Name, s.SHA1, shebang+"\n", piece(s.first), piece(s.rest))
	}
	b.WriteString("}\n")
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644), "write")
	}
	got, err := os.ReadFile(file)
	assert.NoError(t, err, "scripts of nginx")
	assert.Equal(t, string(got), b.String(), "scripts.lua; UPDATE=1 makes it anew")
}
