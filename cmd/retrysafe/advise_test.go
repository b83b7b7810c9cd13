package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAdvise: where the SQL comes from, what is printed, and with which code the command ends.
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
		{"advise|UPDATE t SET x = 1 WHERE id = ?", "", 0, "harmless"},
		{"advise|UPDATE t SET x = x + 1", "", 3, "needs a guard: retrysafe.DoTx"},
		{"advise|CALL pay(1)", "", 3, "unknown"},
		{"advise|-f|" + queries, "", 3, "1:1 INSERT INTO t"},
		{"advise|-f|" + queries + "|--schema|" + schema, "", 0, "refused by the primary key (id)"},
		{"advise|--dialect|mysql|-f|-", "UPDATE t SET x = x + 1", 3, "x again"},
		{"advise|-", "SELECT 1", 0, "It reads."},
		{"advise|--dialect|sqlite|UPDATE t SE x", "", 1, "read as sqlite: line 1, column 10"},
		{"advise|-f|" + filepath.Join(dir, "none"), "", 1, "no such file"},
		{"advise|--schema|" + filepath.Join(dir, "none") + "|SELECT 1", "", 1, "no such file"},
		{"advise|--dialect|oracle|SELECT 1", "", 2, "mysql, postgres or sqlite"},
		{"advise", "", 2, "give the SQL"},
		{"advise|SELECT 1|-f|" + queries, "", 2, "not both"},
		{"advise|SELECT 1|SELECT 2", "", 2, "at most 1"},
	} {
		said, code := adviseRun(t, c.in, strings.Split(c.args, "|")...)
		assert.Equal(t, code, c.code, "%s: exit code (%s)", c.args, said)
		assert.Contains(t, said, c.says, "%s", c.args)
	}

	said, code := adviseRun(t, "", "advise", "--json", "--dialect", "mysql", "UPDATE t SET x = x + 1 WHERE y < 2")
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

func adviseRun(t *testing.T, in string, args ...string) (said string, code int) {
	t.Helper()
	c := command(t, args...)
	c.Stdin = strings.NewReader(in)
	out, _ := c.CombinedOutput()
	return string(out), c.ProcessState.ExitCode()
}
