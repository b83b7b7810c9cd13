package mcpidem

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// The types of stored answers. Both are stored as JSON, as the protocol has them.
const (
	resultType = "mcp.CallToolResult"
	errorType  = "mcp.Error"
)

// firstTypedVersion is the first version of the protocol whose results have a resultType.
const firstTypedVersion = "2026-07-28"

var errNoResult = errors.New("mcpidem: the tool returned no result")

// storedReply returns the stored form of an answer.
func (a *answer) storedReply(code rpcidem.Code) (*rpcidem.Reply, error) {
	if a.err != nil {
		body, err := json.Marshal(wireError(a.err))
		return &rpcidem.Reply{Code: code, Type: errorType, Body: body}, err
	}
	if a.res == nil {
		return nil, errNoResult
	}
	body, err := json.Marshal(a.res)
	return &rpcidem.Reply{Code: code, Type: resultType, Body: body}, err
}

// wireError returns the error that the client gets: with the code of an error that it wraps.
func wireError(err error) *jsonrpc.Error {
	err = retrysafe.Unmarked(err)
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case !ok:
		return &jsonrpc.Error{Message: err.Error()}
	case wire == err: //nolint:errorlint // the error itself
		return wire
	}
	return &jsonrpc.Error{Code: wire.Code, Message: err.Error()}
}

// replayAnswer returns a stored answer to a duplicate.
func replayAnswer(req *mcp.CallToolRequest, r *rpcidem.Reply) (mcp.Result, error) {
	switch r.Type {
	case errorType:
		stored := new(jsonrpc.Error)
		if err := json.Unmarshal(r.Body, stored); err == nil {
			return nil, stored
		}
	case resultType:
		if res, err := resultFrom(req, r.Body); err == nil {
			return withResultMeta(res, ReplayedMeta, true), nil
		}
	}
	return toolError(req, rpcidem.NewRefusal("ANSWER_NOT_READABLE", nil)), nil
}

// resultFrom parses a result for the client of req. Numbers in structuredContent and _meta stay as
// they are, whatever their size.
func resultFrom(req *mcp.CallToolRequest, body []byte) (*mcp.CallToolResult, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, errors.Join(err, errNoResult)
	}
	structured, meta := members["structuredContent"], members["_meta"]
	delete(members, "structuredContent")
	delete(members, "_meta")
	delete(members, "resultType")
	if expectsResultType(req) {
		members["resultType"] = json.RawMessage(`"complete"`)
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	res := new(mcp.CallToolResult)
	if err := json.Unmarshal(rest, res); err != nil {
		return nil, err
	}
	if len(structured) > 0 {
		res.StructuredContent = structured
	}
	if len(meta) > 0 {
		exact := json.NewDecoder(bytes.NewReader(meta))
		exact.UseNumber()
		err = exact.Decode(&res.Meta)
	}
	return res, err
}

// expectsResultType reports whether the client of req expects a resultType.
func expectsResultType(req *mcp.CallToolRequest) bool {
	return req.ProtocolVersion() >= firstTypedVersion
}
