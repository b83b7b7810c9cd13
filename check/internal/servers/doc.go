// Package servers has small shops over HTTP by which the checks are judged. The broken ones have
// one fault each, and the others have none and are right in different ways.
//
// Each shop has POST /payments and POST /refunds, which take {"amount": n} and a key, and act after
// some milliseconds. GET /effects answers {"total": n}, the number of payments and refunds that
// were made. There are two callers, [Ann] and [Bob]. The field X-Trouble with 400, 429 or 500 makes
// a request fail before it acts.
package servers
