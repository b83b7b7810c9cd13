package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
)

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestParseTokens(t *testing.T) {
	text := "# people\n\nalice view,resolve " + digestOf("a") + "\n  bob\treveal   " + digestOf("b") + "\r\n"
	got, err := admin.ParseTokens("tokens", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]admin.Caller{
		"a": {Name: "alice", Roles: admin.View | admin.Resolve}, "b": {Name: "bob", Roles: admin.View | admin.Reveal},
	}
	if len(got) != len(want) {
		t.Errorf("%d tokens, want %d", len(got), len(want))
	}
	for token, caller := range want {
		if got[sha256.Sum256([]byte(token))] != caller {
			t.Errorf("token %q: %+v, want %+v", token, got[sha256.Sum256([]byte(token))], caller)
		}
	}
}

func TestParseTokensErrors(t *testing.T) {
	twice := "a view " + digestOf("a") + "\nb view " + digestOf("a")
	for text, want := range map[string]string{
		"alice view":                        "tokens:1:11: a line has 2 parts",
		"a view " + digestOf("a") + " more": "tokens:1:73: a line has 4 parts",
		"\nalice vew " + digestOf("a"):      "tokens:2:7: there is no role \"vew\"",
		"alice view 0123":                   "tokens:1:12: the third part is no SHA-256",
		twice:                               "tokens:2:8: a has this token too",
	} {
		if _, err := admin.ParseTokens("tokens", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("alice view,resolve " + digestOf("a"))
	f.Add("# x\n\n a b c")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := admin.ParseTokens("tokens", []byte(text))
		if err != nil && !strings.HasPrefix(err.Error(), "tokens:") {
			t.Errorf("the error has no place: %v", err)
		}
		for _, c := range tokens {
			if c.Name == "" || !c.Roles.Has(admin.View) {
				t.Errorf("a caller without a name or a role: %+v", c)
			}
		}
	})
}

// A file of tokens to which others may write is refused.
func TestReadTokens(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // its files have other rights
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("alice view "+digestOf("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o660: true, 0o602: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		tokens, err := admin.ReadTokens(file)
		if (err != nil) != refused || err == nil && len(tokens) != 1 || err != nil && !strings.Contains(err.Error(), "chmod go-w "+file) {
			t.Errorf("mode %o: %d tokens, %v", mode, len(tokens), err)
		}
	}
	if _, err := admin.ReadTokens(file + "s"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
