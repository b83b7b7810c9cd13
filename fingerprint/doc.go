// Package fingerprint makes a short digest of what a request asks for, out of its query and its
// body, so that two sendings of one request have the same digest although they differ in spelling:
// in the order of JSON keys, in white space, in the boundary of a multipart body, and in fields
// that are left out by a [Rule], such as the time of sending.
//
// A digest is needed for requests that bring no key of their own: with the caller and the operation
// it can stand in for one, for the seconds of a double click. It cannot tell a double click from a
// second order of the same thing: see docs/fingerprint.md before use. A key that the client makes,
// or a token that the server issues, can.
//
// The digest is of query and body only. Who asks, and the operation (method and path), belong
// beside it: in the tenant and the operation of a key.
//
// Two requests that differ in anything that is kept have different digests, as surely as SHA-256
// has no collisions: the form that is hashed can be read in one way only. What cannot be read with
// certainty, such as a JSON object with a key that stands twice, is refused: programs differ in
// what they read there.
package fingerprint
