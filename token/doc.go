// Package token makes one-time tokens: keys that the server issues, and that work once. A form
// carries one in a hidden field, so that a double click, the back button and a lost answer lead to
// one effect; a script asks for one before it acts.
//
// A token belongs to a tenant. Its life limits its first use alone: one that was used in time is
// answered for as long as the record is kept, and is refused ever after. A token never runs twice,
// however old it is; one whose use certainly did nothing runs again.
//
// [Issuer.Issue] makes one, and [Issuer.ServeHTTP] hands them out over HTTP. To redeem them, set
// Key of httpidem.Options to httpidem.Token, or call [Do] or [Run] where there is no HTTP.
//
// Package classic has the usual snippets for Redis (compare-and-delete, counting, a lock), right
// but with their limits.
package token
