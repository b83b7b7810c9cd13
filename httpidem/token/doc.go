// Package token makes one-time tokens: keys that the server issues, and that work once. A form
// carries one in a hidden field, so that a double click, the back button and a lost answer lead to
// one effect. A script requests one before it acts.
//
// A token belongs to a tenant. Its life limits only its first use. A token that was used in time is
// answered for as long as the record is kept, and refused for ever after. A token never runs twice,
// however old it is, but if its use certainly did nothing, it can run again.
//
// [Issuer.Issue] makes a token, and [Issuer.ServeHTTP] issues them over HTTP. To redeem them, set
// Key of httpidem.Options to httpidem.Token, or call [Do] or [Run] where there is no HTTP.
//
// Package classic has the usual snippets for Redis (compare-and-delete, counting, a lock) in
// correct form, with their limits.
package token
