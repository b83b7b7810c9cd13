// Package reqfield finds one value in a request. Keys, times and event ids are made from such
// values, which others have sent. A value that could be read in two ways would give two keys.
package reqfield
