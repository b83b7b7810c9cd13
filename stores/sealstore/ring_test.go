package sealstore_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// masterKeyText returns a key in base64, the same for the same number.
func masterKeyText(n byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune('a'+n)), 32)))
}

func ringText(current string, ids ...string) string {
	var keys []string
	for i, id := range ids {
		keys = append(keys, fmt.Sprintf(`{"id": %q, "key": %q}`, id, masterKeyText(byte(i))))
	}
	return fmt.Sprintf(`{"current": %q, "keys": [%s]}`, current, strings.Join(keys, ", "))
}

func parseRing(t *testing.T, text string) *sealstore.Ring {
	t.Helper()
	r, err := sealstore.ParseRing([]byte(text))
	assert.NoError(t, err, "the key file")
	return r
}

// TestKeyFile: what is wrong with a key file is said without showing a key.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	good := ringText("b", "a", "b")
	assert.Equal(t, parseRing(t, good).Current(), "b", "current")
	for name, tt := range map[string]struct{ text, want string }{
		"empty":           {"", "ends in the middle"},
		"no JSON":         {"current: a", "no JSON at byte"},
		"two":             {good + good, "goes on"},
		"no such current": {ringText("c", "a", "b"), `current is "c"`},
		"no current":      {`{"keys": []}`, `current is ""`},
		"twice":           {ringText("a", "a", "a"), `two keys with the id "a"`},
		"an id":           {ringText("a b", "a b"), "key 1 of the key file: its id"},
		"a long id":       {ringText("a", strings.Repeat("a", 65)), "its id"},
		"another field":   {`{"current": "a", "key": []}`, "not of the form"},
		"another type":    {`{"current": "a", "keys": {"a": "` + masterKeyText(0) + `"}}`, "not of the form"},
		"short":           {strings.Replace(good, masterKeyText(0), masterKeyText(0)[:40], 1), `key "a" is not 32 bytes`},
		"no base64":       {strings.Replace(good, masterKeyText(0), "!"+masterKeyText(0)[1:], 1), `key "a" is not 32 bytes`},
		"sloppy base64":   {strings.Replace(good, masterKeyText(0), masterKeyText(0)[:42]+"F=", 1), `key "a" is not 32 bytes`},
	} {
		_, err := sealstore.ParseRing([]byte(tt.text))
		assert.True(t, err != nil, "%s: accepted", name)
		assert.Contains(t, err.Error(), tt.want, "%s", name)
		assert.True(t, !strings.Contains(err.Error(), masterKeyText(0)[1:20]), "%s: the error shows a key: %v", name, err)
	}
	r := parseRing(t, good)
	for _, shown := range []string{fmt.Sprint(r), fmt.Sprintf("%#v", r), fmt.Sprintf("%+v", r)} {
		assert.Equal(t, shown, "2 keys, current b", "a printed ring")
	}
}

// TestHalfAKeyFile: no beginning of a key file is a key file.
func TestHalfAKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.json")
	good := ringText("a", "a", "b")
	for n := range len(good) {
		assert.NoError(t, os.WriteFile(path, []byte(good[:n]), 0o600), "write")
		_, err := sealstore.ReadRing(path)
		assert.True(t, err != nil, "the first %d bytes are accepted", n)
		assert.Contains(t, err.Error(), path, "the error names the file")
	}
	assert.NoError(t, os.WriteFile(path, []byte(good+"\n"), 0o600), "write")
	_, err := sealstore.ReadRing(path)
	assert.NoError(t, err, "the whole file")
}

// TestRotation: after a rotation data keys are wrapped by the new master key, on their next use or
// by Rewrap. The old one is not needed any more then.
func TestRotation(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *world){
		"by use": func(t *testing.T, w *world) {
			t.Helper()
			wantOpened(t, w, newKey("ada", "1"))
			wantOpened(t, w, newKey("bob", "1"))
		},
		"by Rewrap": func(t *testing.T, w *world) { t.Helper(); wantRewrapped(t, w.Store, 2); wantRewrapped(t, w.Store, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, keys := range []sealstore.Keys{nil, newDir(t)} {
				w := newWorld(sealstore.Options{})
				o := sealstore.Options{Keys: keys}
				old, both, late := parseRing(t, ringText("a", "a")), parseRing(t, ringText("b", "a", "b")), parseRing(t, strings.Replace(ringText("b", "a", "b"), `{"id": "a", "key": "`+masterKeyText(0)+`"}, `, "", 1))
				before := w.newProcess(old, o)
				finishRecord(t, before, newKey("ada", "1"), storeapi.StateCompleted)
				finishRecord(t, before, newKey("bob", "1"), storeapi.StateCompleted)
				w.wantUnopened(t, w.newProcess(late, o), newKey("ada", "1"), "key ring: a")
				w.Store = w.newProcess(both, o)
				use(t, w)
				wantOpened(t, w.newProcess(late, o), newKey("ada", "1"))
				wantOpened(t, w.newProcess(late, o), newKey("bob", "1"))
				wantOpened(t, before, newKey("ada", "1")) // its copy is still good
				before.SetRing(both)
				w.clock.Advance(24 * 60 * 60 * 1e9)
				wantOpened(t, before, newKey("ada", "1"))
			}
		})
	}
}

func wantRewrapped(t *testing.T, s *sealstore.Store, want int) {
	t.Helper()
	n, err := s.Rewrap(t.Context())
	assert.NoError(t, err, "rewrap")
	assert.Equal(t, n, want, "data keys that Rewrap has changed")
}

// TestRewrapLeavesWhatItCannotOpen: Rewrap wraps all others, and says what is left.
func TestRewrapLeavesWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w.newProcess(parseRing(t, ringText("z", "z")), sealstore.Options{}), newKey("ada", "1"), storeapi.StateCompleted)
	finishRecord(t, w, newKey("bob", "1"), storeapi.StateCompleted)
	finishRecord(t, w, newKey("eve", "1"), storeapi.StateCompleted)
	assert.NoError(t, w.Forget(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "eve"}), "forget")
	next := parseRing(t, ringText("n", "n"))
	w.SetRing(next)
	n, err := w.Rewrap(t.Context())
	assert.True(t, n == 0 && err != nil && strings.Contains(err.Error(), "2026-11"), "keys of two other rings: %d, %v", n, err)
}
