package mcpidem

import (
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// answer is what a tool returned. It is the error that a guard classifies, also for a result that
// is none.
type answer struct {
	raw mcp.Result
	res *mcp.CallToolResult // raw, if it is one
	err error               // of the tool, protocol error or not
}

func answerOf(raw mcp.Result, err error) answer {
	res, _ := raw.(*mcp.CallToolResult)
	return answer{raw: raw, res: res, err: err}
}

func (a *answer) Error() string { return "the answer of a tool" }

// Unwrap returns the error with its marks.
func (a *answer) Unwrap() error {
	if a.err == nil && a.res != nil {
		return a.res.GetError()
	}
	return a.err
}

var errAsksForInput = retrysafe.NothingDone(errors.New("the tool asks for input"))

// asksForInput reports whether the tool needs input before it can work. The client calls it again
// with the input, under the same key.
func (a *answer) asksForInput() bool {
	return a.err == nil && a.res != nil && (a.res.NeedsInput() || a.res.InputRequests != nil)
}

// guardResult returns what the answer means for its key. listed says that the server has the tool.
func (a *answer) guardResult(listed bool) rpcidem.Result {
	if a.asksForInput() {
		return rpcidem.Result{Code: rpcidem.Unimplemented, Err: errAsksForInput}
	}
	code := a.rpcCode(listed)
	return rpcidem.Result{Code: code, Err: a, Reply: func() (*rpcidem.Reply, error) { return a.storedReply(code) }}
}

// Codes of JSON-RPC and of the protocol after which the tool did not run.
var notRunCodes = map[int64]bool{
	jsonrpc.CodeParseError: true, jsonrpc.CodeInvalidRequest: true, jsonrpc.CodeMethodNotFound: true,
	mcp.CodeHeaderMismatch: true, mcp.CodeMissingRequiredClientCapabilities: true, mcp.CodeUnsupportedProtocolVersion: true,
	mcp.CodeURLElicitationRequired: true, // the client calls again after it
}

// rpcCode returns the code that has the same meaning in package rpcidem.
func (a *answer) rpcCode(listed bool) rpcidem.Code {
	// Only an error that the client gets with this code counts, not one that it wraps.
	wire, isWire := retrysafe.Unmarked(a.err).(*jsonrpc.Error) //nolint:errorlint // see above
	switch {
	case a.err == nil && a.res != nil && !a.res.IsError:
		return rpcidem.OK
	case isWire && notRunCodes[wire.Code], isWire && wire.Code == jsonrpc.CodeInvalidParams && !listed:
		return rpcidem.Unimplemented
	case isWire && wire.Code == jsonrpc.CodeInvalidParams:
		return rpcidem.InvalidArgument
	}
	return rpcidem.Unknown
}
