package storeapi

// ListRequest selects records; an empty field selects all.
type ListRequest struct {
	Namespace, Layer, Tenant, Operation string
	State                               State
	// InDoubt selects records in doubt, by Record.InDoubt.
	InDoubt bool
	// Asked, with InDoubt, also selects records by Record.Asked. A store may have to read all
	// records in progress for it.
	Asked bool
	// Progress selects unfinished records whose progress has a codec: those that a Worker can
	// finish. Their order is the store's, and a record that changes while pages are read may be
	// listed twice. Namespace, Layer and Operation make it cheap.
	Progress bool
	// After is the Next of the previous page.
	After string
	// Limit is the size of a page; default 100, at most 1000.
	Limit int
}

// Page is one page of records, without the bodies of answers. An empty Next means that it is the
// last.
type Page struct {
	Records []Record
	// Unreadable records are of a newer version or damaged. They do not hold up other records.
	Unreadable []Unreadable
	Next       string
	// Scans means that no index serves the request: the store reads records that it does not list.
	// A page can then be short or empty and be followed by others.
	Scans bool
	// Read is how many records the store has read for the page, as far as it knows: at least those
	// that it lists.
	Read int
}

// Unreadable is a record that this build cannot read, and why.
type Unreadable struct {
	Key StoreKey
	Err error
}
