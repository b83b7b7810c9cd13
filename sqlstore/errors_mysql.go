package sqlstore

// Error numbers of MySQL and MariaDB.
const (
	numberTooMany       = 1040
	numberNoDatabase    = 1046
	numberDuplicate     = 1062
	numberShutdown      = 1053
	numberSyntax        = 1064
	numberNoTable       = 1146
	numberLockWait      = 1205
	numberDeadlock      = 1213
	numberNoVariable    = 1193
	numberSnapshot      = 1020 // MariaDB: the row was changed after the transaction's snapshot
	numberWrongValue    = 1231
	numberNoSavepoint   = 1305
	numberInterrupted   = 1317
	numberInTransaction = 1568
	numberKilled        = 1927 // MariaDB
	numberStatementTime = 1969 // MariaDB: max_statement_time
	numberExecutionTime = 3024 // MySQL: max_execution_time
	numberSessionKilled = 3169 // MySQL
	numberNoWait        = 3572 // MySQL: NOWAIT; MariaDB says numberLockWait
	numberNoRight       = 1142
	numberIdle          = 4031 // MySQL: wait_timeout
)

const mysqlReadOnly = "the server can only be read, and nothing was changed: it is a replica, or read_only is on; connect to the primary. " +
	"Where the session itself is set to read only (transaction_read_only), all calls work but the one that makes the tables"

const mysqlNoRight = "this user lacks a right, and nothing was changed; Migrate needs CREATE on the database where the tables are not there yet, and all calls " +
	"need SELECT, INSERT, UPDATE and DELETE on them: as an administrator, GRANT SELECT, INSERT, UPDATE, DELETE ON database.table TO the user, for each"

// mysqlAdvice says what an error number means and what to do.
var mysqlAdvice = map[uint16]string{
	1021:             "the server's disk is full, and nothing was written; make room",
	1114:             "the table is full, and nothing was written: the server's disk is, or a limit on its table space (innodb_data_file_path) is reached; make room",
	numberTooMany:    "the server has no connection left; lower the sum of SetMaxOpenConns of all processes, or raise max_connections",
	1203:             "this user has no connection left (max_user_connections); lower the sum of SetMaxOpenConns of all processes",
	1226:             "this user has used up a resource that the server limits for it",
	1044:             "this user may not use the database; look at its name, or GRANT rights on it",
	1045:             "the server refuses the user or the password",
	1698:             "the server refuses the user or the password",
	1049:             "there is no such database; create it, or look at the address",
	numberNoDatabase: "the address names no database; put one behind the last slash",
	numberNoRight:    mysqlNoRight,
	1143:             mysqlNoRight,
	1227:             mysqlNoRight,
	1290:             mysqlReadOnly,
	1836:             mysqlReadOnly,
	1792:             mysqlReadOnly,
	1071:             "the server's pages are too small for the keys of the tables; use innodb_page_size=16k, its default",
	1286:             "the server has no InnoDB, which the tables need",
	1153:             "the record is longer than the server's max_allowed_packet, and nothing was written; set max_allowed_packet=16M",
	1665:             "the server logs statements (binlog_format=STATEMENT), which goes with no transaction of this store, and nothing was written; set binlog_format=ROW or MIXED",
	numberShutdown:   "the server is stopping; try again",
	numberKilled:     "the server has ended the connection; try again",
}
