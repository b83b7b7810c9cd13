package httpidem

// ExposedHeaders are the headers of answers that a page of another origin has to be allowed to read
// (Access-Control-Expose-Headers), so that it can tell a replay and knows when to come again.
func ExposedHeaders() []string {
	return []string{headerReplayed, headerStored, "Retry-After", "Location", "Link"}
}
