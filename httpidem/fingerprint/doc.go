// Package fingerprint computes a short digest of what a request asks for, from its query and its
// body. Two copies of one request have the same digest although they differ in spelling: in the
// order of JSON keys, in white space, in the boundary of a multipart body, and in fields that a
// [Rule] leaves out, such as the time of sending.
//
// Requests without a key need a digest. Together with the caller and the operation it can replace a
// key for the seconds of a double click. It cannot distinguish a double click from a second order
// of the same thing: see docs/fingerprint.md before you use it. A key from the client, or a token
// that the server issued, can.
//
// The digest covers only query and body. Put the caller into the tenant of a key, and the operation
// (method and path) into its operation.
//
// Two requests that differ in anything that counts have different digests, unless SHA-256 has a
// collision: the hashed form can be read in only one way. A request that programs may read
// differently is refused, such as a JSON object with a duplicate key.
package fingerprint
