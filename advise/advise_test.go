package advise_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/advise"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// rule is a statement, its verdict, the suitable guards and a part of the reason.
type rule struct {
	sql     string
	verdict advise.Verdict
	guards  string
	why     string
}

const (
	harmless = advise.Harmless
	guarded  = advise.Guarded
	unknown  = advise.Unknown
	needs    = advise.NeedsGuard
)

// everywhere are statements that all dialects accept; P is a parameter.
var everywhere = []rule{
	{"SELECT * FROM orders WHERE id = P", harmless, "", "reads"},
	{"SELECT count(*), max(total) FROM orders GROUP BY customer HAVING sum(total) > 5", harmless, "", "reads"},
	{"SELECT a.id FROM a JOIN b ON a.id = b.id UNION SELECT 1", harmless, "", "reads"},
	{"WITH x AS (SELECT 1 AS one) SELECT * FROM x", harmless, "", "reads"},
	{"SELECT pay(id) FROM orders", unknown, "", "pay"},
	{"UPDATE users SET name = P, city = 'Rome' WHERE id = P", harmless, "", "(ABA)"},
	{"UPDATE users SET name = lower(P) WHERE id = P", harmless, "", "plain values"},
	{"UPDATE users SET name = NULL", harmless, "", "no WHERE"},
	{"UPDATE t SET total = price * quantity WHERE id = P", harmless, "", "computes total"},
	{"UPDATE t SET x = x WHERE id = P", harmless, "", "plain values"},
	{"UPDATE t SET x = coalesce(x, P) WHERE id = P", harmless, "", "plain values"},
	{"UPDATE t SET x = x + 1 WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET x = (x + 1) * 2", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET x = coalesce(P, x) WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET x = CASE WHEN x > 5 THEN 0 ELSE 9 END WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET a = b, b = a WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes a and b again"},
	{"UPDATE t SET y = 1, x = -x WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET seen = CURRENT_TIMESTAMP WHERE id = P", needs, "retrysafe.DoTx", "stores another value in seen"},
	{"UPDATE t SET x = (SELECT max(y) FROM u) WHERE id = P", needs, "retrysafe.DoTx", "what other rows say"},
	{"UPDATE t SET x = mine(P) WHERE id = P", unknown, "retrysafe.DoTx", "function or a variable of your own"},
	{"UPDATE t SET x = 1 WHERE id IN (SELECT id FROM u)", unknown, "retrysafe.DoTx", "other rows"},
	{"UPDATE t SET x = 1 WHERE at < CURRENT_TIMESTAMP", unknown, "retrysafe.DoTx", "when it runs"},
	{"UPDATE accounts SET amount = amount - 5 WHERE id = P AND amount >= 5", needs, "guard.Condition retrysafe.DoTx", "guards the balance and not against duplicates"},
	{"UPDATE accounts SET amount = amount - P WHERE id = P AND amount - P >= 0", needs, "guard.Condition retrysafe.DoTx", "guards the balance"},
	{"UPDATE accounts SET amount = amount - P WHERE id = P AND 5 <= amount", needs, "guard.Condition retrysafe.DoTx", "guards the balance"},
	{"UPDATE accounts SET amount = amount + 100, version = version + 1 WHERE id = P AND version = P", guarded, "guard.Version", "came with the request"},
	{"UPDATE accounts SET amount = 5, version = 1 + version WHERE version = P AND id = P", guarded, "guard.Version", "optimistic lock"},
	{"UPDATE accounts SET amount = 1, version = version + 1 WHERE version = P", needs, "guard.Version", "names no row"},
	{"UPDATE accounts SET amount = 1, version = version + 1 WHERE version = 3", needs, "guard.Version", "names no row"},
	{"UPDATE accounts SET amount = 1, version = version + 1 WHERE version = P AND amount > P", needs, "guard.Version", "names no row"},
	{"UPDATE accounts SET amount = 1, version = version + 1 WHERE version = P AND id IN (P, P)", guarded, "guard.Version", "optimistic lock"},
	{"UPDATE accounts SET amount = amount - P WHERE amount >= P", needs, "guard.Condition retrysafe.DoTx", "every row that has enough"},
	{"UPDATE accounts SET amount = amount - P WHERE amount - P >= 0", needs, "guard.Condition retrysafe.DoTx", "every row that has enough"},
	{"UPDATE t SET total = 9, fence = 17 WHERE fence < 17", needs, "guard.Fence", "names no row"},
	{"UPDATE accounts SET amount = 1, version = version + 1 WHERE id = P AND version = 7", needs, "guard.Version", "with a constant"},
	{"UPDATE accounts SET amount = amount + 1, version = version + 1 WHERE id = P", needs, "retrysafe.DoTx guard.Version", "changes amount and version again"},
	{"UPDATE accounts SET amount = amount + 1, version = version + 1 WHERE id = P OR version = P", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE orders SET status = 3 WHERE id = P AND status = 2", guarded, "guard.Machine", "transition"},
	{"UPDATE orders SET status = 3, total = total + 1 WHERE id = P AND status = 2", guarded, "guard.Machine", "moves forward only"},
	{"UPDATE orders SET status = 'paid' WHERE id = P AND status IN ('new', 'open')", guarded, "guard.Machine", "transition"},
	{"UPDATE orders SET status = 'paid' WHERE id = P AND status IN ('new', 'paid')", harmless, "", "plain values"},
	{"UPDATE orders SET status = 3 WHERE id = P AND status <> 3", guarded, "guard.Machine", "transition"},
	{"UPDATE orders SET status = 3 WHERE id = P AND status = 3", harmless, "", "plain values"},
	{"UPDATE orders SET status = P WHERE id = P AND status = P", guarded, "guard.Machine", "only where the two values differ"},
	{"UPDATE orders SET paid_at = CURRENT_TIMESTAMP WHERE id = P AND paid_at IS NULL", guarded, "guard.Machine", "transition"},
	{"UPDATE orders SET status = 3 WHERE status = 2", needs, "guard.Machine", "names no row"},
	{"UPDATE orders SET paid = paid + 1 WHERE id = P AND paid IS NULL", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE t SET total = 9, fence = 17 WHERE id = P AND fence < 17", guarded, "guard.Fence", "fence"},
	{"UPDATE t SET total = 9, fence = 17 WHERE id = P AND 17 >= fence", guarded, "guard.Fence", "fence"},
	{"UPDATE t SET total = total + 9, fence = 17 WHERE id = P AND fence <= 17", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE orders SET status = 'paid', n = n + 1 WHERE id = P AND status IN ('new', P)", unknown, "guard.Machine retrysafe.DoTx", "do not show"},
	{"CREATE TABLE t (id INT PRIMARY KEY, x INT, v REAL); UPDATE t SET x = x + 1, v = v + 1 WHERE id = P AND v = P", needs, "retrysafe.DoTx guard.Version", "again"},
	{"CREATE TABLE t (a VARCHAR(9) UNIQUE); INSERT INTO t (a) VALUES (nullif(P, 'x'))", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"CREATE TABLE t (a VARCHAR(9) UNIQUE); INSERT INTO t (a) VALUES (lower(P))", guarded, "guard.Unique", "one of its columns is NULL"},
	{"SELECT sum(a) OVER (ORDER BY pay(a)) FROM t", unknown, "", "pay"},
	{"DELETE FROM orders WHERE id = P AND status = 'open'", harmless, "", "stays removed"},
	{"DELETE FROM orders", harmless, "", "inserted since"},
	{"DELETE FROM orders WHERE at < CURRENT_TIMESTAMP", unknown, "retrysafe.DoTx", "when it runs"},
	{"DELETE FROM q WHERE id = (SELECT min(id) FROM q)", unknown, "retrysafe.DoTx", "loses a message"},
	{"INSERT INTO orders (customer, total) VALUES (P, P)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"INSERT INTO orders VALUES (P, P)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"INSERT INTO totals (day, n) SELECT day, count(*) FROM orders GROUP BY day", needs, "guard.Unique retrysafe.DoTx", "a query finds"},
	{"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t (id) VALUES (P)", guarded, "guard.PrimaryKey", "refused by the primary key (id)"},
	{"CREATE TABLE t (a INT, b INT, UNIQUE (a, b)); INSERT INTO t (b, a) VALUES (P, 3)", guarded, "guard.Unique", "unique index on (a, b)"},
	{"CREATE TABLE t (a INT, b INT, UNIQUE (a, b)); INSERT INTO t (a) VALUES (P)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "has only columns"},
	{"CREATE TABLE t (a INT UNIQUE, b INT); INSERT INTO t VALUES (P, P)", guarded, "guard.Unique", "(a)"},
	{"CREATE TABLE t (a INT UNIQUE, b INT); INSERT INTO t VALUES (NULL, P)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"CREATE TABLE t (a VARCHAR(9) UNIQUE); INSERT INTO t (a) VALUES (uuid())", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"CREATE TABLE t (a INT); CREATE UNIQUE INDEX i ON t (a); INSERT INTO t (a) VALUES (1), (2)", guarded, "guard.Unique", "(a)"},
	{"CREATE TABLE t (a INT); CREATE INDEX i ON t (a); INSERT INTO t (a) VALUES (1)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "inserts another row"},
	{"CREATE TABLE t (id INT)", needs, "", "fails"},
	{"CREATE TABLE IF NOT EXISTS t (id INT)", harmless, "", "finds what it asks for"},
	{"DROP TABLE t", needs, "", "migrations"},
	{"DROP TABLE IF EXISTS t", harmless, "", "second time"},
	{"ALTER TABLE t ADD COLUMN x INT", needs, "", "migrations"},
	{"BEGIN", harmless, "", "second time"},
	{"COMMIT", harmless, "", "answer is lost"},
}

var inMySQL = []rule{
	{"SELECT * FROM t WHERE id = ? FOR UPDATE", harmless, "", "guard.RowLock"},
	{"SELECT * FROM t INTO OUTFILE '/tmp/x'", needs, "guard.Unique retrysafe.DoTx", "again"},
	{"SELECT get_lock('a', 5)", harmless, "", "reads"},
	{"UPDATE t SET x = greatest(x, ?) WHERE id = ?", harmless, "", "plain values"},
	{"UPDATE t SET x = x | 4 WHERE id = ?", harmless, "", "plain values"},
	{"UPDATE t SET x = x ^ 4 WHERE id = ?", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE t SET x = rand(), y = now()", needs, "retrysafe.DoTx", "x and y"},
	{"SELECT group_concat(a ORDER BY pay(b)) FROM t", unknown, "", "pay"},
	{"UPDATE t SET x = @y WHERE id = 1", unknown, "retrysafe.DoTx", "variable"},
	{"UPDATE t SET x = unix_timestamp('2020-01-01') WHERE id = 1", harmless, "", "plain"},
	{"UPDATE jobs SET worker = ? WHERE worker IS NULL ORDER BY id LIMIT 1", needs, "retrysafe.DoTx", "LIMIT"},
	{"UPDATE a JOIN b ON a.id = b.id SET a.x = b.x WHERE a.id = ?", needs, "retrysafe.DoTx", "what other rows say"},
	{"UPDATE a JOIN b ON a.id = b.id SET a.x = 1 WHERE a.id = ?", unknown, "retrysafe.DoTx", "other rows"},
	{"UPDATE a JOIN b ON a.id = b.id SET a.x = a.x + 1, b.done = 1 WHERE b.id = ? AND b.done = 0", guarded, "guard.Machine", "transition"},
	{"UPDATE a JOIN b ON a.id = b.id SET a.x = a.x + 1, a.done = 1 WHERE a.id = ? AND b.done = 0", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE t SET x = 1, changed = NOW(6) WHERE id = ? AND changed = ?", unknown, "guard.Version retrysafe.DoTx", "finer than a second"},
	{"UPDATE t SET x = 1, changed = NOW() WHERE id = ? AND changed = ?", needs, "retrysafe.DoTx", "another value in changed"},
	{"CREATE TABLE t (id INT PRIMARY KEY, x INT, changed DATETIME(6)); UPDATE t SET x = x + 1, changed = NOW(6) WHERE id = ? AND changed = ?", guarded, "guard.Version", "optimistic lock by changed"},
	{"CREATE TABLE t (id INT PRIMARY KEY, x INT, changed DATETIME); UPDATE t SET x = x + 1, changed = NOW(6) WHERE id = ? AND changed = ?", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"UPDATE t SET x = x OR ? WHERE id = ?", needs, "retrysafe.DoTx guard.Version", "again"},
	{"SET @x = pay(1)", unknown, "retrysafe.DoTx", "pay"},
	{"UPDATE a JOIN b ON a.id = b.id SET a.x = a.x + b.x WHERE a.id = ?", needs, "retrysafe.DoTx guard.Version", "again"},
	{"DELETE FROM t WHERE x = 1 LIMIT 10", needs, "retrysafe.DoTx", "LIMIT"},
	{"DELETE a FROM a JOIN b ON a.id = b.id", unknown, "retrysafe.DoTx", "other rows"},
	{"INSERT INTO t SET a = 1", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"INSERT IGNORE INTO t (a) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "has no effect"},
	{"CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT IGNORE INTO t (a) VALUES (?)", guarded, "guard.PrimaryKey", "0 rows"},
	{"CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, b INT); INSERT INTO t (b) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "number that the database draws"},
	{"CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, b INT); INSERT INTO t VALUES (0, ?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "number that the database draws"},
	{"CREATE TABLE t (a INT, b INT); ALTER TABLE t ADD UNIQUE KEY u (a); INSERT INTO t (a) VALUES (?)", guarded, "guard.Unique", "(a)"},
	{"CREATE TABLE t (a INT, UNIQUE KEY u ((a + 1))); INSERT INTO t (a) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"INSERT INTO hits (page, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", needs, "retrysafe.DoTx", "computed from the stored one"},
	{"CREATE TABLE hits (page INT PRIMARY KEY, n INT); INSERT INTO hits (page, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + VALUES(n)", needs, "retrysafe.DoTx", "changes n again"},
	{"CREATE TABLE t (a INT PRIMARY KEY, n INT); INSERT INTO t (a, n) VALUES (?, ?) ON DUPLICATE KEY UPDATE n = VALUES(n)", harmless, "guard.Upsert", "(ABA)"},
	{"CREATE TABLE t (a INT PRIMARY KEY, n INT); INSERT INTO t (a, n) VALUES (?, ?) AS new ON DUPLICATE KEY UPDATE n = new.n", harmless, "guard.Upsert", "(ABA)"},
	{"CREATE TABLE t (a INT PRIMARY KEY, n DATETIME); INSERT INTO t (a, n) VALUES (?, now()) ON DUPLICATE KEY UPDATE n = VALUES(n)", needs, "retrysafe.DoTx guard.Upsert", "another value in n"},
	{"CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE); INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE b = VALUES(b)", harmless, "guard.Upsert", "another unique index"},
	{"CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE b = 1", needs, "retrysafe.DoTx guard.Upsert", "than the first run inserts"},
	{"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT UNIQUE); REPLACE INTO t (a) VALUES (?)", needs, "retrysafe.DoTx guard.Upsert", "another value in id"},
	{"CREATE UNIQUE INDEX u ON t (a); REPLACE INTO t (a) VALUES (?)", unknown, "guard.Upsert retrysafe.DoTx", "leaves out"},
	{"CREATE TABLE t (a INT PRIMARY KEY, b INT); REPLACE INTO t (a, b) VALUES (?, ?)", harmless, "guard.Upsert", "replaces"},
	{"CREATE TABLE t (a INT PRIMARY KEY, b DATETIME); REPLACE INTO t (a, b) VALUES (?, now())", needs, "retrysafe.DoTx guard.Upsert", "another value in b"},
	{"REPLACE INTO t (a) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"CALL pay(1)", unknown, "retrysafe.DoTx", "CALL"},
	{"TRUNCATE TABLE t", needs, "retrysafe.DoTx", "TRUNCATE"},
	{"LOAD DATA INFILE 'x' INTO TABLE t", needs, "guard.Unique retrysafe.DoTx", "again"},
	{"SET @x = 1", harmless, "", "second time"},
	{"EXPLAIN ANALYZE UPDATE t SET x = x + 1", needs, "retrysafe.DoTx guard.Version", "again"},
	{"EXPLAIN UPDATE t SET x = x + 1", harmless, "", "reads"},
}

var inSQLite = []rule{
	{"UPDATE t SET (a, b) = (?, b + 1) WHERE id = ?", needs, "retrysafe.DoTx guard.Version", "changes b again"},
	{"UPDATE t SET a = random()", needs, "retrysafe.DoTx", "stores another value"},
	{"UPDATE t SET a = datetime('now')", needs, "retrysafe.DoTx", "stores another value"},
	{"UPDATE t SET a = datetime('2020-01-01', '+1 day')", harmless, "", "plain"},
	{"UPDATE t SET a = unixepoch('subsec')", needs, "retrysafe.DoTx", "stores another value"},
	{"UPDATE t SET a = datetime(?)", unknown, "retrysafe.DoTx", "a time that may be 'now'"},
	{"SELECT datetime(?)", harmless, "", "reads"},
	{"SELECT group_concat(a ORDER BY pay(b)) FROM t", unknown, "", "pay"},
	{"UPDATE t SET a = max(a, ?) WHERE id = ?", harmless, "", "plain"},
	{"UPDATE t SET a = 1 WHERE x = 2 LIMIT 1", needs, "retrysafe.DoTx", "LIMIT"},
	{"UPDATE t SET a = u.a FROM u WHERE u.id = t.id", needs, "retrysafe.DoTx", "what other rows say"},
	{"UPDATE t SET a = 1 FROM u WHERE u.id = t.id", unknown, "retrysafe.DoTx", "other rows"},
	{"UPDATE t SET paid = TRUE, n = n + 1 WHERE id = ? AND paid = FALSE", guarded, "guard.Machine", "transition"},
	{"UPDATE t SET a = 1 WHERE id = 1 RETURNING pay(id)", unknown, "retrysafe.DoTx", "calls pay"},
	{"DELETE FROM t WHERE id = 1 RETURNING *", harmless, "", "returns no rows"},
	{"DELETE FROM t ORDER BY id LIMIT 1", needs, "retrysafe.DoTx", "LIMIT"},
	{"CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t (x) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "number that the database draws"},
	{"CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t (id, x) VALUES (?1, ?2)", guarded, "guard.PrimaryKey", "(id)"},
	{"CREATE TABLE t (a); CREATE UNIQUE INDEX u ON t (a) WHERE a > 5; INSERT INTO t (a) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"INSERT OR IGNORE INTO t (a) VALUES (?)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "has no effect"},
	{"CREATE TABLE t (a UNIQUE); INSERT OR REPLACE INTO t (a) VALUES (?)", harmless, "guard.Upsert", "replaces"},
	{"INSERT INTO t (a) VALUES (?) ON CONFLICT (a) DO NOTHING", guarded, "guard.Unique", "0 rows"},
	{"INSERT INTO t (a, n) VALUES (?, 1) ON CONFLICT (a) DO UPDATE SET n = n + 1", needs, "retrysafe.DoTx", "changes n again"},
	{"INSERT INTO t (a, n) VALUES (?, 1) ON CONFLICT (a) DO UPDATE SET n = excluded.n", harmless, "guard.Upsert", "(ABA)"},
	{"INSERT INTO t DEFAULT VALUES", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"PRAGMA journal_mode = WAL", harmless, "", "second time"},
	{"EXPLAIN QUERY PLAN SELECT 1", harmless, "", "reads"},
}

var inPostgres = []rule{
	{"SELECT * FROM t WHERE id = $1 FOR UPDATE SKIP LOCKED", harmless, "", "guard.RowLock"},
	{"SELECT nextval('orders_id')", needs, "retrysafe.DoTx", "another number"},
	{"SELECT pg_advisory_xact_lock(5)", harmless, "", "reads"},
	{"SELECT * INTO new FROM t", needs, "", "migrations"},
	{"UPDATE t SET at = now(), n = nextval('s') WHERE id = $1", needs, "retrysafe.DoTx", "at and n"},
	{"UPDATE t SET x = $1::int WHERE id = $2", harmless, "", "plain"},
	{"UPDATE t SET at = 'now'::timestamp WHERE id = $2", needs, "retrysafe.DoTx", "another value"},
	{"UPDATE t SET x = 'today' WHERE id = $2", unknown, "retrysafe.DoTx", "a time that may be 'now'"},
	{"CREATE TABLE t (id int, x date, y text); UPDATE t SET x = 'Today' WHERE id = $2", needs, "retrysafe.DoTx", "another value"},
	{"CREATE TABLE t (id int, x date, y text); UPDATE t SET y = 'today' WHERE y <> 'now'", harmless, "", "plain"},
	{"CREATE TABLE t (id int, x daterange); UPDATE t SET x = '[today,tomorrow)'", unknown, "retrysafe.DoTx", "may be 'now'"},
	{"UPDATE t SET x = 'call me now' WHERE id = $2", harmless, "", "plain"},
	{"DELETE FROM t WHERE x < 'yesterday'", unknown, "retrysafe.DoTx", "when it runs"},
	{"DELETE FROM t WHERE id IN (SELECT id FROM u WHERE x < 'yesterday')", unknown, "retrysafe.DoTx", "when it runs"},
	{"UPDATE t SET x = ctid::text WHERE id = $1", needs, "retrysafe.DoTx", "another value in x"},
	{"UPDATE t SET x = length(t::text) WHERE id = $1", needs, "retrysafe.DoTx guard.Version", "changes x again"},
	{"CREATE TABLE t (id int, x int, t int); UPDATE t SET x = t * 2 WHERE id = $1", harmless, "", "computes x"},
	{"UPDATE t SET x = greatest(x, $1) WHERE id = $2", harmless, "", "plain"},
	{"UPDATE t SET x = DEFAULT WHERE id = $2", unknown, "retrysafe.DoTx", "a default"},
	{"INSERT INTO t (a, n) SELECT a, count(*) FROM u GROUP BY a ON CONFLICT (a) DO UPDATE SET n = excluded.n", unknown, "guard.Upsert retrysafe.DoTx", "finds by then"},
	{"INSERT INTO t (a, n) SELECT a, count(*) FROM u GROUP BY a ON CONFLICT (a) DO NOTHING", unknown, "guard.Upsert retrysafe.DoTx", "finds by then"},
	{"INSERT INTO t (a, n) VALUES ($1, (SELECT max(n) FROM t)) ON CONFLICT (a) DO UPDATE SET n = excluded.n", needs, "retrysafe.DoTx guard.Upsert", "another value in n"},
	{"INSERT INTO t (a, n) VALUES (DEFAULT, 1) ON CONFLICT (a) DO NOTHING", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"UPDATE t SET (a, b) = ($1, b || 'x') WHERE id = $2", needs, "retrysafe.DoTx guard.Version", "changes b again"},
	{"UPDATE t SET tags = array_append(tags, $1) WHERE id = $2", needs, "retrysafe.DoTx guard.Version", "changes tags again"},
	{"UPDATE t SET x = u.x FROM u WHERE u.id = t.id AND t.id = $1", needs, "retrysafe.DoTx", "what other rows say"},
	{"UPDATE t SET x = 1, changed = now() WHERE id = $1 AND changed = $2", unknown, "guard.Version retrysafe.DoTx", "finer than a second"},
	{"CREATE TABLE t (id int, x int, changed timestamptz); UPDATE t SET x = 1, changed = now() WHERE id = $1 AND changed = $2", guarded, "guard.Version", "one transaction"},
	{"CREATE TABLE t (id int, x int, changed timestamptz(0)); UPDATE t SET x = 1, changed = now() WHERE id = $1 AND changed = $2", needs, "retrysafe.DoTx", "another value in changed"},
	{"UPDATE t SET status = 'paid'::state, n = n + 1 WHERE id = $1 AND status = 'new'::state", guarded, "guard.Machine", "transition"},
	{"UPDATE t SET status = '2024-01-02', n = n + 1 WHERE id = $1 AND status = '2024-01-01'", unknown, "guard.Machine retrysafe.DoTx", "do not show"},
	{"UPDATE t SET x = 1 WHERE CURRENT OF c", unknown, "retrysafe.DoTx", "when it runs"},
	{"UPDATE t SET x = 1 WHERE id OPERATOR(mine.=) $1", unknown, "retrysafe.DoTx", "when it runs"},
	{"FETCH NEXT FROM c", unknown, "retrysafe.DoTx", "FETCH"},
	{"DECLARE c CURSOR FOR SELECT id FROM t", harmless, "", "second time"},
	{"COPY t TO PROGRAM 'mail'", unknown, "retrysafe.DoTx", "PROGRAM"},
	{"UPDATE t AS a SET x = a.x + 1 WHERE a.id = $1", needs, "retrysafe.DoTx guard.Version", "again"},
	{"UPDATE t SET x = 1 WHERE id = ANY ($1) RETURNING id", harmless, "", "by then"},
	{"WITH gone AS (DELETE FROM t WHERE id = $1 RETURNING *) INSERT INTO archive SELECT * FROM gone", needs, "guard.Unique retrysafe.DoTx", "a query finds"},
	{"WITH up AS (UPDATE t SET x = x + 1 RETURNING x) SELECT * FROM up", needs, "retrysafe.DoTx guard.Version", "again"},
	{"DELETE FROM q USING p WHERE p.id = q.id", unknown, "retrysafe.DoTx", "other rows"},
	{"CREATE TABLE t (id bigserial PRIMARY KEY, x int); INSERT INTO t (x) VALUES ($1) RETURNING id", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "number that the database draws"},
	{"CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), x int); INSERT INTO t (x) VALUES ($1)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"CREATE TABLE t (a int, b int); ALTER TABLE t ADD CONSTRAINT u UNIQUE (a); INSERT INTO t (a) VALUES ($1)", guarded, "guard.Unique", "(a)"},
	{"CREATE UNIQUE INDEX u ON t (lower(a)); INSERT INTO t (a) VALUES ($1)", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "has no effect"},
	{"INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO NOTHING", guarded, "guard.Unique", "0 rows"},
	{"INSERT INTO t (a) VALUES (gen_random_uuid()) ON CONFLICT (a) DO NOTHING", needs, "guard.Unique guard.PrimaryKey retrysafe.DoTx", "another row"},
	{"INSERT INTO t (a, n) VALUES ($1, 1) ON CONFLICT (a) DO UPDATE SET n = t.n + excluded.n", needs, "retrysafe.DoTx", "changes n again"},
	{"INSERT INTO t (a, n) VALUES ($1, 1) ON CONFLICT (a) DO UPDATE SET n = excluded.n", harmless, "guard.Upsert", "(ABA)"},
	{"INSERT INTO t (a, n) VALUES ($1, now()) ON CONFLICT (a) DO UPDATE SET n = excluded.n", needs, "retrysafe.DoTx guard.Upsert", "another value in n"},
	{"MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET x = t.x + 1", needs, "guard.Upsert retrysafe.DoTx", "MERGE"},
	{"CALL pay(1)", unknown, "retrysafe.DoTx", "CALL"},
	{"DO $$ BEGIN PERFORM 1; END $$", unknown, "retrysafe.DoTx", "DO"},
	{"COPY t FROM STDIN", needs, "guard.Unique retrysafe.DoTx", "again"},
	{"COPY t TO STDOUT", harmless, "", "reads"},
	{"NOTIFY x", needs, "retrysafe.DoTx", "sends the message again"},
	{"LISTEN x", harmless, "", "second time"},
	{"TRUNCATE t", needs, "retrysafe.DoTx", "TRUNCATE"},
	{"GRANT SELECT ON t TO ann", harmless, "", "second time"},
	{"EXPLAIN ANALYZE UPDATE t SET x = x + 1", needs, "retrysafe.DoTx guard.Version", "again"},
}

var parameter = regexp.MustCompile(`\bP\b`)

func TestRules(t *testing.T) {
	t.Parallel()
	for d, own := range map[advise.Dialect][]rule{advise.MySQL: inMySQL, advise.SQLite: inSQLite, advise.PostgreSQL: inPostgres} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for _, r := range everywhere {
				n := 0
				r.sql = parameter.ReplaceAllStringFunc(r.sql, func(string) string {
					if n++; d == advise.PostgreSQL {
						return fmt.Sprint("$", n)
					}
					return "?"
				})
				check(t, d, r)
			}
			for _, r := range own {
				check(t, d, r)
			}
		})
	}
}

func check(t *testing.T, d advise.Dialect, r rule) {
	t.Helper()
	report, err := advise.Advise(r.sql, "", d)
	if err != nil {
		t.Errorf("%s: %s: %v", d, r.sql, err)
		return
	}
	if len(report.Advice) == 0 {
		t.Errorf("%s: %s: no advice", d, r.sql)
		return
	}
	a := report.Advice[len(report.Advice)-1]
	if a.Verdict != r.verdict || strings.Join(a.Guards, " ") != r.guards || !strings.Contains(strings.Join(a.Why, " "), r.why) {
		t.Errorf("%s: %s:\n got %s [%s] %s\nwant %s [%s] … %s", d, r.sql, a.Verdict, strings.Join(a.Guards, " "), strings.Join(a.Why, " "), r.verdict, r.guards, r.why)
	}
}

// TestTexts: many statements, their positions, a separate schema, comments, and text without any
// statement.
func TestTexts(t *testing.T) {
	t.Parallel()
	text := "-- one\nUPDATE t SET x = 1;\n\n  /* zwölf */ INSERT INTO t (id) VALUES (?);;\nSELECT 1"
	for _, d := range []advise.Dialect{advise.MySQL, advise.SQLite} {
		r, err := advise.Advise(text, "CREATE TABLE t (id INT PRIMARY KEY, x INT)", d)
		assert.NoError(t, err, "%s", d)
		var at []string
		for _, a := range r.Advice {
			at = append(at, fmt.Sprintf("%d:%d %s", a.Line, a.Column, strings.TrimRight(a.Statement, ";")))
		}
		assert.Equal(t, at, []string{"2:1 UPDATE t SET x = 1", "4:15 INSERT INTO t (id) VALUES (?)", "5:1 SELECT 1"}, "%s: places", d)
		assert.Equal(t, r.Worst(), advise.Guarded, "%s: worst, with the schema", d)
		r, err = advise.Advise(text, "", d)
		assert.True(t, err == nil && r.Worst() == advise.NeedsGuard, "%s: worst, without it: %v", d, err)
		for _, none := range []string{"", " ;\n", "-- nothing", "/* nothing", ";;"} {
			r, err := advise.Advise(none, none, d)
			assert.True(t, err == nil && len(r.Advice) == 0 && r.Worst() == advise.Harmless, "%s: %q: %v", d, none, err)
		}
	}
	r, err := advise.Advise(strings.ReplaceAll(text, "?", "$1"), "", advise.PostgreSQL)
	assert.NoError(t, err, "postgres")
	assert.True(t, len(r.Advice) == 3 && r.Advice[1].Line == 4 && r.Advice[1].Column == 15 && r.Advice[2].Line == 5, "postgres: %+v", r.Advice)
}

// TestMyBatis: MyBatis parameters are read in each dialect at their positions, and the same name
// means the same value. In quotes and comments they are text.
func TestMyBatis(t *testing.T) {
	t.Parallel()
	for _, d := range []advise.Dialect{advise.MySQL, advise.SQLite, advise.PostgreSQL} {
		for sql, want := range map[string]string{
			"UPDATE users SET name = #{name,jdbcType=VARCHAR} WHERE id = #{id}":                              "harmless",
			"UPDATE t SET amount = amount - #{n}, version = version + 1 WHERE id = #{id} AND version = ${v}": "guarded",
			"UPDATE t SET x = 1 -- #{no\n WHERE id = #{id} AND note <> 'a #{b} \"c'":                         "harmless",
			"UPDATE t SET x = /* #{a} */ 1 WHERE id = #{a}":                                                  "harmless",
			"INSERT INTO t (id) VALUES (#{id})":                                                              "needs a guard",
		} {
			r, err := advise.Advise("SELECT 1;\n"+sql, "", d)
			assert.NoError(t, err, "%s: %s", d, sql)
			a := r.Advice[1]
			assert.Equal(t, fmt.Sprint(a.Verdict, " ", a.Line, ":", a.Column), want+" 2:1", "%s: %s", d, sql)
			assert.Equal(t, a.Statement, sql, "%s: what is shown", d)
		}
	}
	r, err := advise.Advise("UPDATE t SET fence = #{f} WHERE id = #{id} AND fence < #{f}", "", advise.PostgreSQL)
	assert.True(t, err == nil && r.Worst() == advise.Guarded, "a fence by a name: %v", err)
	r, err = advise.Advise("UPDATE t SET fence = #{f} WHERE id = #{id} AND fence < #{g}", "", advise.PostgreSQL)
	assert.True(t, err == nil && !slices.Contains(r.Advice[0].Guards, "guard.Fence"), "another name is another value: %v", err)
	_, err = advise.Advise("UPDATE t SET x = #{x WHERE id = 1", "", advise.SQLite)
	assert.True(t, err != nil, "a brace that is not closed")
}

// TestAny: the first dialect that accepts the whole text is used.
func TestAny(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]advise.Dialect{
		"UPDATE t SET x = 1": advise.SQLite,
		"INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 1": advise.MySQL,
		"UPDATE t SET x = 1::int":                                    advise.PostgreSQL,
	} {
		r, err := advise.Advise(text, "", advise.Any)
		assert.NoError(t, err, "%s", text)
		assert.Equal(t, r.Dialect, want, "%s", text)
	}
	_, err := advise.Advise("UPDATE t SE x = 1", "", advise.Any)
	assert.True(t, err != nil, "no SQL")
	for _, part := range []string{"read as sqlite: line 1, column", "read as mysql: line 1, column", "read as postgres: line 1, column"} {
		assert.Contains(t, err.Error(), part, "each dialect that was tried")
	}
}

// TestSyntaxErrors: the position of a syntax error, and the dialect.
func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d            advise.Dialect
		text         string
		line, column int
		message      string
	}{
		{advise.SQLite, "SELECT 1;\nUPDATE t SE x = 1", 2, 10, "near"},
		{advise.SQLite, "SELECT", 1, 7, "incomplete"},
		{advise.MySQL, "SELECT 1;\nUPDATE t SE x = 1", 2, 14, "x = 1"},
		{advise.MySQL, "SELECT", 1, 6, "too early"},
		{advise.PostgreSQL, "SELECT 'é';\nUPDATE t SE x = 1", 2, 13, "at or near"},
		{advise.PostgreSQL, "UPDATE t SET x = ?", 1, 19, "$1, $2"},
	} {
		_, err := advise.Advise(c.text, "", c.d)
		e, ok := errors.AsType[*advise.SyntaxError](err)
		assert.True(t, ok, "%s: %q: %v", c.d, c.text, err)
		if e.Dialect != c.d || e.Line != c.line || e.Column != c.column || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s: %q: %+v", c.d, c.text, e)
		}
	}
	_, err := advise.Advise("SELECT 1", "CREATE TABEL", advise.SQLite)
	assert.True(t, err != nil && strings.Contains(err.Error(), "the schema"), "%v", err)
	for want, text := range map[string]string{
		"divide it":     strings.Repeat("x", 300<<10),
		"brackets":      "SELECT " + strings.Repeat("(", 600),
		"a zero byte":   "SELECT \x00",
		"no dialect":    "SELECT 1",
		"read as mysql": "SELECT " + strings.Repeat("(", 400),
	} {
		d := advise.MySQL
		if want == "no dialect" {
			d = "oracle"
		}
		_, err := advise.Advise(text, "", d)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
	}
}

// TestLongTexts: text that is nested or chained up to the limits does not end the process.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sum":       "UPDATE t SET x = 1" + strings.Repeat("+x", 20_000),
		"minus":     "UPDATE t SET x = " + strings.Repeat("- ", 20_000) + "1",
		"not":       "UPDATE t SET x = " + strings.Repeat("NOT ", 20_000) + "1",
		"case":      "UPDATE t SET x = " + strings.Repeat("CASE WHEN ", 20_000) + "1",
		"brackets":  "UPDATE t SET x = " + strings.Repeat("(", 400) + "1" + strings.Repeat(")", 400),
		"and":       "DELETE FROM t WHERE a = 1" + strings.Repeat(" AND a = 1", 20_000),
		"union":     "SELECT 1, 2" + strings.Repeat(" UNION SELECT 1, 2", 10_000),
		"queries":   "SELECT " + strings.Repeat("(SELECT ", 99) + "1" + strings.Repeat(")", 99),
		"calls":     "SELECT " + strings.Repeat("f(", 99) + "1" + strings.Repeat("+x", 140) + strings.Repeat(")", 99),
		"in quotes": "SELECT 1" + strings.Repeat("+','+x", 10_000),
		"escaped":   "SELECT 1" + strings.Repeat(`+E'\',\''`, 10_000),
		"dollars":   "SELECT 1" + strings.Repeat(`+$a$,$a$+$b`, 10_000),
		"comments":  "SELECT 1" + strings.Repeat(`+x/*/*,*/,*/`, 10_000),
		"named":     "SELECT 1" + strings.Repeat(`+"a,"+U&"b,"+e`, 5_000),
		"wide":      "INSERT INTO t VALUES " + strings.Repeat("(1, 'a, b', 3), ", 10_000) + "(1, 2, 3)",
		"many":      strings.Repeat("UPDATE t SET x = x + 1;", 1000),
		"most":      "SELECT " + strings.Repeat("a,", 131_000) + "a",
		"copies":    copied(300, 4),
		"deeper":    copied(2, 30),
	} {
		for _, d := range []advise.Dialect{advise.MySQL, advise.SQLite, advise.PostgreSQL} {
			r, err := advise.Advise(text, "", d)
			assert.True(t, (r == nil) == (err != nil), "%s, %s: %v", name, d, err)
		}
	}
	_, err := advise.Advise("SELECT 1", "", advise.PostgreSQL)
	assert.NoError(t, err, "the parser lives on")
}

// copied sets columns from a query that sets columns, and so on: PostgreSQL's tree has the query
// once for each column.
func copied(columns, deep int) string {
	text := "SELECT 1"
	for range deep {
		text = "WITH x AS (UPDATE t SET (" + strings.Repeat("a, ", columns-1) + "a) = (" + text + ") RETURNING 1) SELECT 1"
	}
	return text
}

// TestCopies: a query that columns share is parsed, and one that would be copied too often is
// refused.
func TestCopies(t *testing.T) {
	t.Parallel()
	r, err := advise.Advise(copied(3, 2), "", advise.PostgreSQL)
	assert.True(t, err == nil && len(r.Advice) == 1, "%v", err)
	_, err = advise.Advise(copied(300, 4), "", advise.PostgreSQL)
	assert.True(t, err != nil && strings.Contains(err.Error(), "nested too often"), "%v", err)
}

// TestOldFiles: bytes of older character sets stay unchanged.
func TestOldFiles(t *testing.T) {
	t.Parallel()
	text := "SELECT 'gr\xfc\xdfe'; -- \xe4\nUPDATE t SET \xe4 = 1"
	r, err := advise.Advise(text, "", advise.PostgreSQL)
	assert.True(t, err == nil && len(r.Advice) == 2 && r.Advice[1].Line == 2 && r.Advice[1].Statement == "UPDATE t SET \xe4 = 1", "%v: %+v", err, r)
}

func fuzz(f *testing.F, d advise.Dialect, own []rule) {
	f.Helper()
	for _, r := range slices.Concat(everywhere, own) {
		f.Add(r.sql)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := advise.Advise(text, "", d)
		if err != nil {
			return
		}
		for _, a := range r.Advice {
			if a.Line < 1 || a.Column < 1 || len(a.Why) == 0 || a.Verdict == "" || !strings.Contains(text, a.Statement) {
				t.Fatalf("%q: %+v", text, a)
			}
		}
		_ = r.Text()
	})
}

func FuzzMySQL(f *testing.F)      { fuzz(f, advise.MySQL, inMySQL) }
func FuzzSQLite(f *testing.F)     { fuzz(f, advise.SQLite, inSQLite) }
func FuzzPostgreSQL(f *testing.F) { fuzz(f, advise.PostgreSQL, inPostgres) }
