// Package h1client sends requests upstream, and never the same one twice. A [Delivery] knows
// whether any byte of a request was given to the kernel, a [Conn] sends guarded requests over
// HTTP/1.1 without TLS, and a [Transport] sends all others.
package h1client
