package freeport

// SearchFrom makes the next search begin after port.
func SearchFrom(port int) {
	mu.Lock()
	defer mu.Unlock()
	next = port
}
