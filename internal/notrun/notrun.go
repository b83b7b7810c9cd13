// Package notrun is the table of the answers by which a service says that it did not run a request,
// so that the request's key is released and a retry runs. docs/outcomes.md shows it; the scripts
// for nginx and for browsers are compared with it.
package notrun

import "slices"

// Row is a row of the table: answers, and why they release a key.
type Row struct {
	// Status is the status over HTTP; zero: none.
	Status int
	// AndAbove says that the row also has all greater statuses.
	AndAbove bool
	// SamePath says that the status counts only if the answer leads to the path of the request.
	SamePath bool
	// Codes are the status codes of gRPC and Connect.
	Codes []uint32
	// Why is the sentence of the definition, or why the answer is stored under Refuse.
	Why string
	// Source is where the definition is.
	Source string
}

// Status codes of gRPC.
const (
	cancelled         = 1
	unknown           = 2
	deadlineExceeded  = 4
	permissionDenied  = 7
	resourceExhausted = 8
	aborted           = 10
	unimplemented     = 12
	internal          = 13
	unavailable       = 14
	dataLoss          = 15
	unauthenticated   = 16
)

// Always are the answers whose definition says that the request was not processed: they release a
// key under every policy.
var Always = []Row{
	{
		Status: 307, SamePath: true, Source: "RFC 9110, section 15.4.8",
		Why: `"the user agent MUST NOT change the request method if it performs an automatic redirection": the client sends the same request to another URI`,
	},
	{
		Status: 308, SamePath: true, Source: "RFC 9110, section 15.4.9",
		Why: `"any future references to this resource ought to use one of the enclosed URIs": likewise`,
	},
	{
		Status: 401, Codes: []uint32{unauthenticated}, Source: "RFC 9110, section 15.5.2",
		Why: `"the request has not been applied because it lacks valid authentication credentials"`,
	},
	{
		Status: 403, Codes: []uint32{permissionDenied}, Source: "RFC 9110, section 15.5.4",
		Why: `"the server understood the request but refuses to fulfill it"`,
	},
	{Status: 407, Source: "RFC 9110, section 15.5.8", Why: `"similar to 401", of a proxy`},
	{Status: 408, Source: "RFC 9110, section 15.5.9", Why: `"the server did not receive a complete request message"`},
	{
		Status: 421, Source: "RFC 9110, section 15.5.20",
		Why: `"a server that is unable or unwilling to produce an authoritative response for the target URI"`,
	},
	{Status: 425, Source: "RFC 8470, section 5.2", Why: `"the server is unwilling to risk processing a request that might be replayed"`},
	{Status: 426, Source: "RFC 9110, section 15.5.22", Why: `"the server refuses to perform the request using the current protocol"`},
	{
		Status: 428, Source: "RFC 6585, section 3",
		Why: "\"the origin server requires the request to be conditional\": the client sends it again with `If-Match`",
	},
	{
		Status: 429, Codes: []uint32{resourceExhausted}, Source: "RFC 6585, section 4",
		Why: `"the user has sent too many requests in a given amount of time"`,
	},
	{
		Status: 431, Source: "RFC 6585, section 5",
		Why: `"the server is unwilling to process the request because its header fields are too large"`,
	},
	{
		Codes: []uint32{unimplemented}, Source: "[codes of gRPC](https://grpc.io/docs/guides/status-codes/)",
		Why: `"The operation is not implemented or is not supported/enabled in this service"`,
	},
}

// UnderReexecute are the further answers that release a key under Reexecute. Services answer them
// before they act and after it, so they are stored under Refuse.
var UnderReexecute = []Row{
	{
		Status: 409, Codes: []uint32{aborted},
		Why: `"the request could not be completed due to a conflict with the current state": a handler that has charged passes on the conflict that another service told it. The definition does not say that nothing was done`,
	},
	{Status: 423, Why: "likewise"},
	{
		Status: 500, AndAbove: true, Codes: []uint32{cancelled, unknown, deadlineExceeded, internal, unavailable, dataLoss},
		Why: "the handler failed in the middle, or a proxy did not wait for it",
	},
}

// rowOf returns the row of a status, or nil.
func rowOf(rows []Row, status int) *Row {
	for i := range rows {
		if r := &rows[i]; r.Status != 0 && (r.Status == status || r.AndAbove && status > r.Status) {
			return r
		}
	}
	return nil
}

// Status reports whether a status releases a key under every policy. If samePath is true, that
// holds only for an answer that leads to the path of the request.
func Status(status int) (releases, samePath bool) {
	r := rowOf(Always, status)
	return r != nil, r != nil && r.SamePath
}

// StatusUnderReexecute reports whether a status releases a key under Reexecute, besides those that
// always do.
func StatusUnderReexecute(status int) bool { return rowOf(UnderReexecute, status) != nil }

// Code reports whether a status code of gRPC releases a key under every policy.
func Code(code uint32) bool { return hasCode(Always, code) }

// CodeUnderReexecute reports whether a status code of gRPC releases a key under Reexecute, besides
// those that always do.
func CodeUnderReexecute(code uint32) bool { return hasCode(UnderReexecute, code) }

func hasCode(rows []Row, code uint32) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return slices.Contains(r.Codes, code) })
}
