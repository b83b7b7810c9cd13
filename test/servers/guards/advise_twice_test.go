package guards_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/advise"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// twice is a statement that runs twice. Arguments are in braces, with their values.
type twice struct {
	on   string // p, m, s: the databases that have it
	sql  string
	want advise.Verdict // empty: any that its second run allows
	// first prepares the tables.
	first string
}

// twiceStride is the stride at which TestAdviseTwice takes two of the generated statements. It
// shares no divisor with the lengths of the lists that twiceGenerated combines.
const twiceStride = 11

// TestAdviseTwice runs statements twice on each kind of database. One whose second run has an
// effect is never called harmless or guarded. It runs all statements of twiceStatements, and two of
// each eleven of the generated ones, always the same. RETRYSAFE_MODELS=long (make verify) runs all.
func TestAdviseTwice(t *testing.T) {
	t.Parallel()
	databases := servers.WithPostgres(map[string]func(*testing.T) *adviseDB{"MariaDB": adviseOnMySQL, "SQLite": adviseOnSQLite},
		func(v *servers.PostgresVersion) func(*testing.T) *adviseDB {
			return func(t *testing.T) *adviseDB { t.Helper(); return adviseOnPostgres(t, v) }
		})
	for name, open := range databases {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // SQLite counts its calls for all
			a := open(t)
			letter := map[advise.Dialect]string{advise.PostgreSQL: "p", advise.MySQL: "m", advise.SQLite: "s"}[a.d]
			ran, again, calm := 0, 0, 0
			for _, c := range slices.Concat(twiceStatements, someGenerated()) {
				if !strings.Contains(c.on, letter) {
					continue
				}
				generated := strings.Contains(c.on, "?")
				effect, verdict, err := a.runTwice(t, c)
				if err != nil {
					if !generated {
						t.Errorf("%s: %s: its first run: %v", a.d, c.sql, err)
					}
					continue // a generated one that the database refuses
				}
				ran++
				if effect != "" {
					again++
				}
				if verdict == advise.Harmless || verdict == advise.Guarded {
					calm++
					if effect != "" {
						t.Errorf("%s: %s\n is called %s, and its second run has changed\n%s", a.d, c.sql, verdict, effect)
					}
				}
				if c.want != "" && verdict != c.want {
					t.Errorf("%s: %s\n is called %s, want %s", a.d, c.sql, verdict, c.want)
				}
			}
			t.Logf("%s: %d statements ran twice; the second run of %d had an effect, and %d are harmless or guarded", a.d, ran, again, calm)
			assert.True(t, ran >= 250, "statements that ran twice: %d", ran)
			assert.True(t, again >= 50 && calm >= 50, "the statements show both: %d have an effect, %d are harmless or guarded", again, calm)
		})
	}
}

// runTwice runs a statement twice, and returns what the second run has changed, and the verdict.
// err is that of the first run.
func (a *adviseDB) runTwice(t *testing.T, c twice) (effect string, verdict advise.Verdict, err error) {
	t.Helper()
	text, args := a.statementText(c.sql)
	report, err := advise.Advise(text, a.schema, a.d)
	assert.NoError(t, err, "%s: %s", a.d, text)
	assert.Equal(t, len(report.Advice), 1, "%s: %s: statements", a.d, text)
	a.refillTables(t, c.first)
	if err := a.runStatement(t.Context(), t, text, args, "25"); err != nil {
		return "", "", err
	}
	after := a.storedState(t, text)
	_ = a.runStatement(t.Context(), t, text, args, "75") // it may be refused
	if then := a.storedState(t, text); then != after {
		effect = fmt.Sprintf("%sto\n%s", after, then)
	}
	return effect, report.Advice[0].Verdict, nil
}

// someGenerated returns the generated statements that run.
func someGenerated() (some []twice) {
	all := twiceGenerated()
	if os.Getenv("RETRYSAFE_MODELS") == "long" {
		return all
	}
	for i, c := range all {
		if i%twiceStride < 2 {
			some = append(some, c)
		}
	}
	return some
}

// twiceGenerated combines values that are set and compared, ways to compare them, and values of
// another column. Some a database refuses.
func twiceGenerated() (all []twice) {
	literals := []string{"1", "2", "'1'", "'2'", "2.0", "2.4", "TRUE", "02", "'new'", "'New'", "'new '", "'né'", "'paid'", "NULL"}
	for _, column := range []string{"status", "note", "share"} {
		table := map[string]string{"share": "accounts"}[column]
		other := "amount"
		if table == "" {
			table, other = "orders", "total"
		}
		for _, set := range literals {
			for _, with := range literals {
				for _, compare := range []struct{ sign, before string }{{"= %s", with}, {"<> %s", "'9'"}, {"< %s", "'0'"}, {"IN (%s)", with}} {
					if compare.sign == "IN (%s)" && column != "status" {
						continue
					}
					all = append(all, twice{
						on:    "p m s ?",
						sql:   fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s + 1 WHERE id = {1} AND %s "+compare.sign, table, column, set, other, other, column, with),
						first: fmt.Sprintf("UPDATE %s SET %s = %s", table, column, compare.before),
					})
				}
			}
		}
	}
	values := []string{
		"5", "{5}", "amount", "amount + 1", "version", "version + 1", "coalesce(amount, 5)", "coalesce(5, amount)", "-amount", "(SELECT max(total) FROM orders)",
		"(SELECT max(amount) + 1 FROM accounts)", "o.total", "o.total + 1", "b.amount", "b.amount + 1", "abs(amount)", "CASE WHEN amount > 15 THEN 1 ELSE amount + 6 END",
	}
	froms := []struct{ on, update, where string }{
		{"p s", "UPDATE accounts SET amount = %s%s", "WHERE accounts.id = {1}"},
		{"m", "UPDATE accounts SET amount = %s%s", "WHERE accounts.id = {1}"},
		{"p s", "UPDATE accounts SET amount = %s%s FROM orders o", "WHERE accounts.id = {1} AND o.id = {2} AND o.status = 1"},
		{"m", "UPDATE accounts JOIN orders o ON o.user_id = accounts.id SET amount = %s%s", "WHERE accounts.id = {1} AND o.status = 1"},
		{"p s", "UPDATE accounts SET amount = %s%s FROM accounts b", "WHERE accounts.id = b.id AND accounts.id = {1}"},
		{"p s", "WITH b AS (SELECT id, amount FROM accounts) UPDATE accounts SET amount = %s%s FROM b", "WHERE accounts.id = b.id AND accounts.id = {1}"},
		{"p s", "UPDATE accounts SET amount = %s%s FROM (SELECT id, amount + 1 AS amount FROM accounts) b", "WHERE accounts.id = b.id AND accounts.id = {1}"},
		{"m", "UPDATE accounts x JOIN accounts b ON b.id = x.id SET x.amount = %s%s", "WHERE x.id = {1}"},
	}
	guards := []struct{ set, where string }{
		{"", ""},
		{", version = NAME.version + 1", "AND NAME.version = {1}"},
		{", status = 2", "AND NAME.status = 1"},
		{", status = 2", "AND o.status = 1"},
		{", status = 2", "AND status = '2'"},
	}
	for _, from := range froms {
		name := "accounts"
		if strings.Contains(from.update, "accounts x") {
			name = "x"
		}
		for _, value := range values {
			for _, g := range guards {
				set := g.set
				if !strings.Contains(from.on, "m") && strings.Contains(set, "NAME.") {
					set = strings.Replace(set, "NAME.", "accounts.", 1)
				}
				if strings.Contains(from.on, "m") && set != "" {
					set = strings.Replace(strings.ReplaceAll(set, "NAME.", name+"."), ", ", ", "+name+".", 1)
				}
				all = append(all, twice{
					on:    from.on + " ?",
					sql:   fmt.Sprintf(from.update+" "+from.where+" "+g.where, value, set),
					first: map[bool]string{true: "UPDATE accounts SET status = 2"}[strings.Contains(g.where, "'2'")],
				})
				last := &all[len(all)-1]
				last.sql = strings.ReplaceAll(last.sql, "NAME.", name+".")
			}
		}
	}
	return all
}
