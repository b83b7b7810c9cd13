package sqlstore

// Marked marks a context as that of a transaction on a database; InTransaction looks for the mark.
var (
	Marked        = markContext
	InTransaction = inTransaction
)
