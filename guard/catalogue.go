package guard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// catalogueQueries are the queries to the catalogue of one dialect. Each returns one row.
//
// indexes takes the table and the columns. PostgreSQL gets the table quoted and with its schema;
// the others get the schema and the table separately. The columns are sorted and joined by commas.
// The query returns what the table is, and how many unique indexes it has on exactly these columns.
// The table is "" if it does not exist, "plain" if its engine has no transactions, "parent" if
// other tables inherit from it, "late" if it has a unique or exclusion constraint that ON CONFLICT
// does not support, and else "ok". Indexes on a part of the rows, on expressions or on prefixes of
// values do not keep two rows apart, so they do not count. Nor do those that PostgreSQL checks only
// when the transaction commits.
//
// The others take the table and a column. key reports whether the column has room for digests, and
// moment whether it keeps microseconds. kind returns the column's kind, or "". numbered reports
// whether the database assigns the column's values itself. It is not used on SQLite, whose INTEGER
// PRIMARY KEY only fills in missing values.
type catalogueQueries struct{ indexes, key, moment, kind, numbered string }

var queriesByDialect = map[dbtx.Dialect]catalogueQueries{
	dbtx.PostgreSQL: {
		indexes: `SELECT CASE WHEN to_regclass($1) IS NULL THEN ''
			WHEN EXISTS (SELECT 1 FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhparent WHERE p.oid = to_regclass($1) AND p.relkind = 'r') THEN 'parent' WHEN EXISTS (SELECT 1 FROM pg_index l WHERE l.indrelid = to_regclass($1) AND (l.indisunique OR l.indisexclusion) AND NOT l.indimmediate)
			THEN 'late' ELSE 'ok' END, count(*)
			FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
			AND (SELECT string_agg(a.attname::text, ',' ORDER BY a.attname::text COLLATE "C") FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(n, at)
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE k.at <= i.indnkeyatts) = $2`,
		key: `SELECT count(*) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END
			WHERE a.attrelid = to_regclass($1) AND a.attname::text = $2 AND b.typname IN ('text', 'varchar', 'bpchar', 'citext')
			AND (a.atttypmod < 0 OR a.atttypmod - 4 >= 64) AND (t.typtypmod < 0 OR t.typtypmod - 4 >= 64)`,
		moment: `SELECT count(*) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = to_regclass($1) AND a.attname::text = $2
			AND t.typname IN ('timestamptz', 'timestamp') AND (a.atttypmod < 0 OR a.atttypmod >= 6)`,
		kind: `SELECT CASE WHEN b.typname IN ('int2', 'int4', 'int8', 'oid') THEN 'integer' WHEN b.typname IN ('numeric', 'float4', 'float8') THEN 'number'
				WHEN t.typcategory = 'S' THEN 'text'
				WHEN b.typname IN ('timestamptz', 'timestamp') THEN 'moment ' || CASE WHEN a.atttypmod >= 0 THEN a.atttypmod WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE 6 END ELSE '' END
			FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END
			WHERE a.attrelid = to_regclass($1) AND a.attname::text = $2`,
		numbered: `SELECT count(*) FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE a.attrelid = to_regclass($1) AND a.attname::text = $2 AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')`,
	},
	dbtx.MySQL: {
		indexes: `SELECT coalesce((SELECT MAX(CASE WHEN e.TRANSACTIONS = 'YES' THEN 'ok' ELSE 'plain' END) FROM information_schema.TABLES t
				JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND t.TABLE_NAME = ?), ''),
			(SELECT COUNT(*) FROM (
				SELECT INDEX_NAME, GROUP_CONCAT(LOWER(COLUMN_NAME) ORDER BY HEX(LOWER(COLUMN_NAME)) SEPARATOR ',') AS cols, COUNT(*) AS parts,
					COUNT(COLUMN_NAME) AS named, COUNT(SUB_PART) AS begun FROM information_schema.STATISTICS
				WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? AND NON_UNIQUE = 0 GROUP BY INDEX_NAME
			) x WHERE x.parts = x.named AND x.begun = 0 AND x.cols = ?)`,
		key: `SELECT count(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?
			AND LOWER(COLUMN_NAME) = LOWER(?) AND CHARACTER_MAXIMUM_LENGTH >= 64`,
		moment: `SELECT count(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?
			AND LOWER(COLUMN_NAME) = LOWER(?) AND DATETIME_PRECISION >= 6`,
		kind: `SELECT CASE WHEN DATA_TYPE IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'year') THEN 'integer' WHEN DATA_TYPE IN ('decimal', 'float', 'double') THEN 'number'
				WHEN CHARACTER_MAXIMUM_LENGTH IS NOT NULL THEN 'text' WHEN DATA_TYPE IN ('datetime', 'timestamp') THEN CONCAT('moment ', DATETIME_PRECISION)
				WHEN DATA_TYPE = 'date' THEN 'day' ELSE '' END
			FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? AND LOWER(COLUMN_NAME) = LOWER(?)`,
		numbered: `SELECT count(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?
			AND LOWER(COLUMN_NAME) = LOWER(?) AND (LOWER(EXTRA) LIKE '%auto_increment%' OR LOWER(COLUMN_DEFAULT) LIKE 'nextval(%')`,
	},
	dbtx.SQLite: {
		indexes: `SELECT CASE WHEN EXISTS (SELECT 1 FROM pragma_table_info(?2, ?1)) THEN 'ok' ELSE '' END, (SELECT count(*)
			FROM pragma_index_list(?2, ?1) AS l WHERE l.` + "`unique`" + ` = 1 AND l.partial = 0
			AND (SELECT group_concat(coalesce(lower(x.name), '.'), ',') FROM (SELECT name FROM pragma_index_info(l.name, ?1) ORDER BY lower(name)) AS x) = ?3)
			+ CASE WHEN (SELECT group_concat(lower(x.name), ',') FROM (SELECT name FROM pragma_table_info(?2, ?1) WHERE pk > 0 ORDER BY lower(name)) AS x) = ?3
				THEN 1 ELSE 0 END`,
		key:    `SELECT count(*) FROM pragma_table_info(?2, ?1) WHERE lower(name) = lower(?3)`,
		moment: `SELECT count(*) FROM pragma_table_info(?2, ?1) WHERE lower(name) = lower(?3)`,
		// This follows the substrings that decide a column's affinity. A column whose type has none
		// of them, such as a date, accepts any value.
		kind: `SELECT CASE WHEN upper(type) LIKE '%INT%' THEN 'integer' WHEN upper(type) LIKE '%CHAR%' OR upper(type) LIKE '%CLOB%' OR upper(type) LIKE '%TEXT%' THEN 'text'
				WHEN upper(type) LIKE '%REAL%' OR upper(type) LIKE '%FLOAT%' OR upper(type) LIKE '%DOUBLE%' OR upper(type) LIKE 'NUM%' OR upper(type) LIKE 'DEC%' THEN 'number' ELSE '' END
			FROM pragma_table_info(?2, ?1) WHERE lower(name) = lower(?3)`,
	},
}

// checkCatalogue checks in the catalogue that the table is as the guard needs it.
func (p *plan) checkCatalogue(ctx context.Context, tx dbtx.Tx) error {
	if p.d == dbtx.SQLite {
		// SQLite refuses a write in a transaction that has read before another one wrote, so take
		// the write lock first.
		if err := p.lockFile(ctx, tx); err != nil {
			return p.noTableError(err)
		}
	}
	if err := p.checkIndexes(ctx, tx); err != nil {
		return err
	}
	if err := p.readKinds(ctx, tx); err != nil {
		return err
	}
	if err := p.checkNumbering(ctx, tx); err != nil {
		return err
	}
	return p.checkColumns(ctx, tx)
}

// checkIndexes checks what the table is, and that it has a unique index on exactly the columns.
func (p *plan) checkIndexes(ctx context.Context, tx dbtx.Tx) error {
	columns := slices.Clone(p.unique)
	if p.d != dbtx.PostgreSQL {
		for i := range columns {
			columns[i] = strings.ToLower(columns[i])
		}
	}
	slices.Sort(columns)
	args := p.tableArgs()
	if p.d == dbtx.MySQL {
		args = append(args, args...)
	}
	var table string
	var indexes int64
	if err := tx.QueryRow(ctx, queriesByDialect[p.d].indexes, append(args, strings.Join(columns, ",")), &table, &indexes); err != nil {
		return explainError(p.tableText+": look at its unique indexes", err)
	}
	switch {
	case table == "":
		return p.noTableError(nil)
	case table == "plain":
		return misuseError("the table %s keeps no transactions, so that nothing in it can be undone; ALTER TABLE %s ENGINE=InnoDB", p.table, p.quoted)
	case table == "parent":
		return misuseError("other tables inherit from the table %s: its unique index does not look at their rows, and a trigger may put into them what was written to it; use a partitioned table, or give the "+
			"guard a table from which none inherits", p.table)
	case indexes == 0:
		return misuseError("%s stands on a unique index, and the table %s has none on (%s) alone, for all rows; run: %s",
			p.guard, p.table, strings.Join(p.unique, ", "), p.createIndex())
	}
	p.deferrable = table == "late"
	return nil
}

// readKinds reads the kinds of the columns of the unique index.
func (p *plan) readKinds(ctx context.Context, tx dbtx.Tx) error {
	p.kinds = make([]columnKind, len(p.unique))
	for i, c := range p.unique {
		var k string
		if err := tx.QueryRow(ctx, queriesByDialect[p.d].kind, append(p.tableArgs(), c), &k); err != nil {
			return explainError(p.tableText+": look at the column "+strconv.Quote(c), err)
		}
		p.kinds[i] = columnKind(k)
	}
	return nil
}

// checkNumbering checks that the database does not assign ids that requests bring.
func (p *plan) checkNumbering(ctx context.Context, tx dbtx.Tx) error {
	question := queriesByDialect[p.d].numbered
	if !p.fromRequest || question == "" {
		return nil
	}
	numbered, err := p.columnMatches(ctx, tx, question, p.unique[0])
	if err != nil || !numbered {
		return err
	}
	return misuseError("the table %s numbers its rows by itself in the column %s, so that a number that it gives may be an id that a request has brought, and a duplicate that brings none gets the next "+
		"one; make the column one that the program gives (ALTER it so that it has no AUTO_INCREMENT, IDENTITY or DEFAULT), or add another with a unique index", p.table, p.unique[0])
}

// checkColumns checks the columns in which the guard keeps digests and moments.
func (p *plan) checkColumns(ctx context.Context, tx dbtx.Tx) error {
	if p.key != "" {
		if ok, err := p.columnMatches(ctx, tx, queriesByDialect[p.d].key, p.key); !ok {
			return errorOrMisuse(err, "the table %s has no column %s of text that takes digests of %d characters; ALTER TABLE %s ADD COLUMN %s VARCHAR(%d), or make the one "+
				"that is there wider", p.table, p.key, DigestLen, p.quoted, quoteName(p.d, p.key), DigestLen)
		}
	}
	if p.moment {
		kind := map[dbtx.Dialect]string{dbtx.PostgreSQL: "TIMESTAMPTZ(6)", dbtx.MySQL: "DATETIME(6)", dbtx.SQLite: "DATETIME"}[p.d]
		if ok, err := p.columnMatches(ctx, tx, queriesByDialect[p.d].moment, p.column); !ok {
			return errorOrMisuse(err, "the table %s has no column %s that keeps microseconds: two writers in one tick of a coarser clock would not be told apart; make it %s", p.table, p.column, kind)
		}
	}
	return nil
}

func (p *plan) tableArgs() []any {
	schema, table := splitTable(p.table)
	switch {
	case p.d == dbtx.PostgreSQL:
		return []any{p.quoted}
	case p.d == dbtx.SQLite && schema == "":
		schema = "main"
	}
	return []any{schema, table}
}

func (p *plan) columnMatches(ctx context.Context, tx dbtx.Tx, question, column string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, question, append(p.tableArgs(), column), &n)
	return n > 0, explainError(p.tableText+": look at the column "+strconv.Quote(column), err)
}

func errorOrMisuse(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return misuseError(format, args...)
}

// noTableError is the error for a table that does not exist. If err has another reason,
// noTableError returns err.
func (p *plan) noTableError(err error) error {
	if err != nil && (errors.Is(err, ErrLocked) || sqliteCode(err)&0xff != sqliteGenericFailed) {
		return err
	}
	text := "there is no table %s here, or this user may not see it, or it has no column %s; look at the names and at the database that the transaction is on"
	if p.d == dbtx.PostgreSQL {
		text += " (on PostgreSQL a name that was not quoted when the table was made is in lower case)"
	}
	return misuseError(text, p.table, p.unique[0])
}

// lockFile acquires the write lock of SQLite's file and changes nothing.
func (p *plan) lockFile(ctx context.Context, tx dbtx.Tx) error {
	s := newStatement(p.d).add("UPDATE ", p.quoted, " SET ").name(p.unique[0]).add(" = ").name(p.unique[0]).add(" WHERE 1 = 0")
	_, err := p.run(ctx, tx, s)
	return err
}
