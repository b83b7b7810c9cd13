// Package reqfield finds one value in a request: where a key, a time or an event's id is made of
// what others sent, every value that could be read in two ways would be two keys.
package reqfield
