package guard

// MySQLIndex reads the message of a duplicate key.
var MySQLIndex = mysqlIndex

// Passed tells whether a row has certainly made a move.
func Passed[S comparable](moves map[S][]S, from, to, now S) bool {
	return graph[S](moves).passed(from, to, now)
}

// IsDecimal tells whether a text is a number to all databases.
var IsDecimal = isDecimal
