package guard

// MySQLIndex reads the message of a duplicate key.
var MySQLIndex = mysqlIndex

// Passed reports whether a row has certainly made a move.
func Passed[S comparable](moves map[S][]S, from, to, now S) bool {
	return moveGraph[S](moves).certainlyMoved(from, to, now)
}

// IsDecimal reports whether every database reads a text as a number.
var IsDecimal = isDecimal
