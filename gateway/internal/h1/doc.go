// Package h1 has what a server and a client of HTTP/1.1 share: field lines that cannot be read in
// two ways, and a look at a connection without reading from it.
package h1
