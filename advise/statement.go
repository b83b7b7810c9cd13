package advise

// kind says what a statement does.
type kind uint8

const (
	reads kind = iota + 1
	inserts
	updates
	deletes
	// settles: it changes what is so by its words alone, and a repeat finds it so: CREATE … IF NOT
	// EXISTS, GRANT, SET, BEGIN.
	settles
	// defines: DDL whose repeat fails or does something else.
	defines
	// empties: TRUNCATE.
	empties
	// runs: a procedure, a block of code, a prepared statement: nobody here knows what it does.
	runs
	// loads: rows from a file or a stream.
	loads
	// ends: COMMIT.
	ends
	// tells: NOTIFY.
	tells
	// merges: MERGE.
	merges
	// strange: what is not known here.
	strange
)

// conflict is what an insert does where a unique index refuses its row.
type conflict uint8

const (
	fails conflict = iota
	ignores
	overwrites // REPLACE: the old row goes, and the new one comes
	changes    // ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE
)

// assignment is one column that is set.
type assignment struct {
	column string
	value  *expr
}

// statement is what the rules look at; the parsers make it.
type statement struct {
	at, end int // bytes of the text
	kind    kind
	name    string // of what it is, as one says it: CREATE TABLE, CALL
	table   string // lower case, without its schema
	alias   string // what else the table is called in it

	where        *expr
	limited      bool // LIMIT on an update or a delete, or FETCH FIRST
	others       bool // it reads other tables, by FROM or a join
	returning    bool
	locks        bool // SELECT … FOR UPDATE and its like
	sets         []assignment
	setWhere     *expr       // of an upsert: when it changes a row that is there
	columns      []string    // of an insert
	rows         [][]*expr   // of an insert, where its values stand in it
	fromQuery    bool        // the rows of an insert come from a query
	onConflict   conflict    //
	target       []string    // columns that ON CONFLICT names; nil where it names none
	reading      []*expr     // expressions of a read
	inner        []statement // statements in it that write: of WITH, EXPLAIN ANALYZE, PREPARE
	defined      []unique    // what it says of unique indexes
	definedTable bool        // it makes the table, so that columns are all of them
	autoColumns  []string    // columns whose values the database makes
}
