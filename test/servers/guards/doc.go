// Package guards tests guarded statements, and the mistakes that docs/pitfalls.md shows.
package guards
