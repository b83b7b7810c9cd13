package httpidem

// ExposedHeaders returns the response headers that a page of another origin must be allowed to read
// (Access-Control-Expose-Headers), so that it recognises a replay and knows when to retry.
func ExposedHeaders() []string {
	return []string{headerReplayed, headerStored, "Retry-After", "Location", "Link"}
}
