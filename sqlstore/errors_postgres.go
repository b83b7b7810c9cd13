package sqlstore

// Codes of PostgreSQL (SQLSTATE).
const (
	stateProtocol      = "08P01"
	stateNotSupported  = "0A000"
	stateDivision      = "22012"
	stateReadOnly      = "25006"
	stateNoTransaction = "25P01"
	stateNoSavepoint   = "3B001"
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateNoRight       = "42501"
	stateNoTable       = "42P01"
	stateNoSchema      = "3F000"
	stateNoDatabase    = "3D000"
	stateTooMany       = "53300"
	stateDiskFull      = "53100"
	stateLockTimeout   = "55P03"
	stateCanceled      = "57014"
)

// postgresPooler is about statements that were prepared on another connection of the server.
const postgresPooler = "the server mixes up prepared statements, and nothing was changed: the connections go through a pooler in transaction mode (PgBouncer); " +
	"add default_query_exec_mode=exec to the URL (pgx), or let the pooler keep prepared statements (max_prepared_statements)"

// postgresAdvice says what a code means and what to do.
var postgresAdvice = map[string]string{
	stateReadOnly: "the server can only be read, and nothing was changed: it is a replica, or it is being recovered; connect to the primary " +
		"(target_session_attrs=read-write finds it)",
	stateNoRight: "this user lacks a right, and nothing was changed; Migrate needs CREATE on the schema where the tables are not there yet, and all calls need " +
		"SELECT, INSERT, UPDATE and DELETE on them",
	stateNoDatabase: "there is no such database; create it, or look at the address",
	stateNoSchema:   "there is no schema to make tables in; create one, or set search_path",
	stateTooMany:    "the server has no connection left; lower the sum of SetMaxOpenConns of all processes, or raise max_connections",
	stateDiskFull:   "the server's disk is full, and nothing was written; make room",
	"42P05":         postgresPooler,
	"26000":         postgresPooler,
	stateProtocol:   postgresPooler,
	"28000":         "the server refuses this user; look at the user's name and at pg_hba.conf",
	"28P01":         "the server refuses the password",
	"57P01":         "the server ends its connections; it is stopped or started anew",
	"57P02":         "the server has crashed, and recovers by itself",
	"57P03":         "the server is starting or stopping; try again",
}
