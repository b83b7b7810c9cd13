package advise

// statementKind is what a statement does.
type statementKind uint8

const (
	kindRead statementKind = iota + 1
	kindInsert
	kindUpdate
	kindDelete
	// kindIdempotent: it sets a fixed state, and does nothing new when it runs again: CREATE … IF
	// NOT EXISTS, GRANT, SET, BEGIN.
	kindIdempotent
	// kindDefine: DDL that fails or does something else when it runs again.
	kindDefine
	// kindTruncate: TRUNCATE.
	kindTruncate
	// kindCall: a procedure, a block of code or a prepared statement, whose effect is unknown here.
	kindCall
	// kindLoad: rows from a file or a stream.
	kindLoad
	// kindCommit: COMMIT.
	kindCommit
	// kindNotify: NOTIFY.
	kindNotify
	// kindMerge: MERGE.
	kindMerge
	// kindUnknown: unknown to this package.
	kindUnknown
)

// conflictAction is what an insert does if a unique index refuses its row.
type conflictAction uint8

const (
	conflictFail conflictAction = iota
	conflictIgnore
	conflictReplace // REPLACE: deletes the old row and inserts the new one
	conflictUpdate  // ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE
)

// assignment is one column that is set, with its value.
type assignment struct {
	column string
	table  string // if it is given: an UPDATE of MySQL may change several
	value  *expr
}

// statement is the input of the rules; the parsers make it.
type statement struct {
	at, end int // byte positions in the text
	kind    statementKind
	name    string // its usual name: CREATE TABLE, CALL
	table   string // in lower case, without its schema
	alias   string // the table's alias in the statement

	where           *expr
	limited         bool     // LIMIT on an update or a delete, or FETCH FIRST
	otherTables     bool     // reads other tables, in FROM or a join
	sources         []source // the tables in it, if it reads others; the first is the target
	returning       bool
	returningExprs  []*expr // expressions of RETURNING
	locks           bool    // SELECT … FOR UPDATE and similar
	sets            []assignment
	setWhere        *expr     // of an upsert: when it changes an existing row
	columns         []string  // of an insert
	rows            [][]*expr // of an insert with literal rows
	fromQuery       bool      // an insert takes its rows from a query
	onConflict      conflictAction
	conflictTarget  []string      // columns that ON CONFLICT names; nil if none
	allExprs        []*expr       // all expressions in it
	ownNumbers      bool          // OVERRIDING USER VALUE: identity columns get the next number
	inner           []statement   // statements in it that write: in WITH, EXPLAIN ANALYZE, PREPARE
	uniqueIndexes   []uniqueIndex // the unique indexes that it declares
	definedTable    bool          // it creates the table, so columns has all columns
	autoColumns     []string      // columns whose values the database assigns
	identity        []string      // those of autoColumns that OVERRIDING USER VALUE is about
	computed        []string      // columns that change with others: GENERATED ALWAYS AS, ON UPDATE
	varyingDefaults []string      // columns whose default differs each time
	types           map[string]columnType
}

// source is a table in a statement.
type source struct {
	name  string // its alias, or its name
	table string // empty: a query
}

// changedName returns the name by which a statement calls the table that it changes.
func (st *statement) changedName() string {
	if st.alias != "" {
		return st.alias
	}
	return st.table
}
