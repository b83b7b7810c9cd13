package http_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNginxUnderOtherNames: the guard finds OpenResty's libraries under their own names if Debian's
// are missing.
func TestNginxUnderOtherNames(t *testing.T) {
	t.Parallel()
	const debian = "/usr/share/lua/5.1"
	libs := t.TempDir()
	for _, folder := range []string{"resty", "ngx", "cjson"} {
		if _, err := os.Stat(filepath.Join(debian, folder)); err == nil {
			assert.NoError(t, os.CopyFS(filepath.Join(libs, folder), os.DirFS(filepath.Join(debian, folder))), "copy %s", folder)
		}
	}
	renamed, err := filepath.Glob(debian + "/nginx/*.lua")
	assert.True(t, err == nil && len(renamed) > 3, "Debian's libraries: %v %v", renamed, err)
	for _, file := range renamed {
		text, err := os.ReadFile(file)
		assert.NoError(t, err, "read")
		text = []byte(strings.NewReplacer(`"nginx.`, `"resty.`, `'nginx.`, `'resty.`).Replace(string(text)))
		assert.NoError(t, os.WriteFile(filepath.Join(libs, "resty", filepath.Base(file)), text, 0o600), "write")
	}
	for _, dir := range []string{libs, filepath.Dir(libs)} {
		assert.NoError(t, os.Chmod(dir, 0o755), "nginx reads it as somebody else") //nolint:gosec // it has no secrets
	}
	f := startNginx(t, nginxSetup{
		origin:  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) },
		replace: map[string]string{";/usr/share/lua/5.1/?.lua;;": ";" + libs + "/?.lua"},
	})
	for i := range 3 {
		r := f.postOrder("a-key-of-at-least-22-characters", "tea")
		assert.Equal(t, r.status, 201, "answer %d: %s", i, r.body)
	}
	f.checkStarts(1, "three tries")
}
