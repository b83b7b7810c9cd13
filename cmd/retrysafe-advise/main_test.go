package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe-advise/internal/cli"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAdvise: the sources of the SQL, the output, and the exit code.
func TestAdvise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600), "write")
		return path
	}
	queries := write("queries.sql", "INSERT INTO t (id) VALUES (?);\nSELECT 1")
	schema := write("schema.sql", "CREATE TABLE t (id INT PRIMARY KEY)")
	for _, c := range []struct {
		args string
		in   string
		code int
		says string
	}{
		{"UPDATE t SET x = 1 WHERE id = ?", "", 0, "harmless"},
		{"UPDATE t SET x = x + 1", "", 3, "needs a guard: retrysafe.DoTx"},
		{"CALL pay(1)", "", 3, "unknown"},
		{"-f|" + queries, "", 3, "1:1 INSERT INTO t"},
		{"-f|" + queries + "|--schema|" + schema, "", 0, "refused by the primary key (id)"},
		{"--dialect|mysql|-f|-", "UPDATE t SET x = x + 1", 3, "x again"},
		{"-", "SELECT 1", 0, "It reads."},
		{"--dialect|sqlite|UPDATE t SE x", "", 1, "read as sqlite: line 1, column 10"},
		{"-f|" + filepath.Join(dir, "none"), "", 1, "no such file"},
		{"--schema|" + filepath.Join(dir, "none") + "|SELECT 1", "", 1, "no such file"},
		{"--dialect|oracle|SELECT 1", "", 2, "mysql, postgres or sqlite"},
		{"", "", 2, "give the SQL"},
		{"SELECT 1|-f|" + queries, "", 2, "not both"},
		{"SELECT 1|SELECT 2", "", 2, "at most 1"},
	} {
		said, code := adviseRun(t, c.in, strings.FieldsFunc(c.args, func(r rune) bool { return r == '|' })...)
		assert.Equal(t, code, c.code, "%s: exit code (%s)", c.args, said)
		assert.Contains(t, said, c.says, "%s", c.args)
	}

	said, code := adviseRun(t, "", "--json", "--dialect", "mysql", "UPDATE t SET x = x + 1 WHERE y < 2")
	var report struct {
		Dialect string
		Advice  []struct {
			Line    int
			Verdict string
			Guards  []string
		}
	}
	assert.NoError(t, json.Unmarshal([]byte(said), &report), "%s", said)
	assert.True(t, code == 3 && report.Dialect == "mysql" && report.Advice[0].Line == 1 && report.Advice[0].Verdict == "needs a guard" &&
		report.Advice[0].Guards[0] == "retrysafe.DoTx", "%+v", report)
}

// TestVersion: the version in one line, and completion.
func TestVersion(t *testing.T) {
	t.Parallel()
	said, code := adviseRun(t, "", "--version")
	assert.True(t, code == 0 && strings.HasPrefix(said, "retrysafe-advise ") && strings.Count(said, "\n") == 1, "%d %q", code, said)
	said, code = adviseRun(t, "", "__complete", "--dialect", "")
	assert.True(t, code == 0 && strings.HasPrefix(said, "mysql\npostgres\nsqlite\n"), "%d %q", code, said)
}

func adviseRun(t *testing.T, in string, args ...string) (said string, code int) {
	t.Helper()
	var out bytes.Buffer
	code = cli.Main(args, strings.NewReader(in), &out, &out)
	return out.String(), code
}
