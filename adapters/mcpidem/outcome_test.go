package mcpidem_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var errDeclined = errors.New("the card was declined")

// fails returns a handler whose result has an error.
func fails(err error) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := new(mcp.CallToolResult)
		res.SetError(err)
		return res, nil
	}
}

// breaks returns a handler with an error of the protocol.
func breaks(err error) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, err }
}

func wire(code int64) error { return &jsonrpc.Error{Code: code, Message: "the card was declined"} }

// outcomes are what a tool does, what its key is after that, and how often two calls run it.
var outcomes = []struct {
	what string
	tool mcp.ToolHandler
	// runs under Refuse and under Reexecute
	runs [2]int64
	// reason of the duplicate's refusal, under Refuse
	then string
}{
	{what: "a result with isError", tool: fails(errDeclined), runs: [2]int64{1, 2}},
	{what: "an error", tool: breaks(errDeclined), runs: [2]int64{1, 2}},
	{what: "invalid params", tool: breaks(wire(jsonrpc.CodeInvalidParams)), runs: [2]int64{1, 1}},
	{what: "an internal error", tool: breaks(wire(jsonrpc.CodeInternalError)), runs: [2]int64{1, 2}},
	{what: "an error of the server's own", tool: breaks(wire(-32000)), runs: [2]int64{1, 2}},
	{what: "invalid request", tool: breaks(wire(jsonrpc.CodeInvalidRequest)), runs: [2]int64{2, 2}},
	{what: "no such method", tool: breaks(wire(jsonrpc.CodeMethodNotFound)), runs: [2]int64{2, 2}},
	{what: "elicitation required", tool: breaks(wire(mcp.CodeURLElicitationRequired)), runs: [2]int64{2, 2}},
	{what: "an error that wraps another's", tool: breaks(errors.Join(errDeclined, wire(jsonrpc.CodeMethodNotFound))), runs: [2]int64{1, 2}},
	{what: "a result that nothing was done", tool: fails(retrysafe.NothingDone(errDeclined)), runs: [2]int64{2, 2}},
	{what: "an error that nothing was done", tool: breaks(retrysafe.NothingDone(errDeclined)), runs: [2]int64{2, 2}},
	{what: "a refusal for good", tool: fails(retrysafe.Permanent("declined", errDeclined)), runs: [2]int64{1, 1}},
	{what: "a doubt in a result", tool: fails(retrysafe.InDoubt(errDeclined)), runs: [2]int64{1, 2}, then: "OUTCOME_UNKNOWN"},
	{what: "a doubt in an error", tool: breaks(retrysafe.InDoubt(errDeclined)), runs: [2]int64{1, 2}, then: "OUTCOME_UNKNOWN"},
	{what: "a marked error of the protocol", tool: breaks(retrysafe.InDoubt(wire(jsonrpc.CodeMethodNotFound))), runs: [2]int64{1, 2}, then: "OUTCOME_UNKNOWN"},
	{what: "a panic", tool: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the tool is broken") }, runs: [2]int64{1, 2}, then: "OUTCOME_UNKNOWN"},
}

// TestOutcomes: what a tool returns decides about its key.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range outcomes {
		for i, on := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
			d := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{OnDoubt: on}}, tt.tool)
			s := d.join("", nil)
			first, firstErr := call(t, s, params("k", `{}`))
			again, againErr := call(t, s, params("k", `{}`))
			assert.Equal(t, d.runs.Load(), tt.runs[i], "%v: runs after %s", on, tt.what)
			switch {
			case tt.then != "" && d.runs.Load() == 1:
				assert.NoError(t, againErr, "%v: after %s", on, tt.what)
				refused(t, again, tt.then, false)
			case firstErr != nil:
				assert.True(t, againErr != nil && againErr.Error() == firstErr.Error(), "%v: after %s: %v, first: %v", on, tt.what, againErr, firstErr)
			default:
				assert.NoError(t, againErr, "%v: after %s", on, tt.what)
				assert.Equal(t, says(again), says(first), "%v: after %s: the text", on, tt.what)
				assert.Equal(t, again.IsError, true, "%v: after %s: isError", on, tt.what)
				assert.Equal(t, mcpidem.Replayed(again), tt.runs[i] == 1, "%v: after %s: replayed", on, tt.what)
			}
		}
	}
}

// TestTypedHandlers: the marks of a typed handler's error count, and its text has none of them.
func TestTypedHandlers(t *testing.T) {
	t.Parallel()
	type in struct {
		Amount int `json:"amount"`
	}
	for mark, runs := range map[*func(error) error]int64{ptr(retrysafe.NothingDone): 2, ptr(retrysafe.InDoubt): 1, ptr(func(err error) error { return err }): 1} {
		d := newDesk(t, nil, nil, nil)
		mcp.AddTool(d.server, &mcp.Tool{Name: "charge"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
			d.runs.Add(1)
			return nil, nil, (*mark)(errDeclined)
		})
		s := d.join("", nil)
		res := do(t, s, "k", `{"amount":1}`)
		assert.True(t, res.IsError && says(res) == errDeclined.Error(), "the result: %s", says(res))
		do(t, s, "k", `{"amount":1}`)
		assert.Equal(t, d.runs.Load(), runs, "runs")
	}
}

func ptr[V any](v V) *V { return &v }

// TestClassify: a server can decide otherwise, but not that nothing was done under Refuse.
func TestClassify(t *testing.T) {
	t.Parallel()
	to := func(o retrysafe.Outcome) *mcpidem.Options {
		return &mcpidem.Options{Classify: func(res *mcp.CallToolResult, err error) retrysafe.Outcome {
			if (err == nil) == (res == nil) {
				return 0 // exactly one is set
			}
			return o
		}}
	}
	d := newDesk(t, nil, to(retrysafe.NotDone), fails(errDeclined))
	s := d.join("", nil)
	do(t, s, "k", `{}`)
	refused(t, do(t, s, "k", `{}`), "OUTCOME_UNKNOWN", false)
	d = newDesk(t, nil, to(retrysafe.Done), breaks(wire(jsonrpc.CodeMethodNotFound)))
	s = d.join("", nil)
	_, _ = call(t, s, params("k", `{}`))
	_, err := call(t, s, params("k", `{}`))
	assert.True(t, err != nil && d.runs.Load() == 1, "a verdict of its own keeps an error: %v", err)
	d = newDesk(t, nil, to(0), nil)
	s = d.join("", nil)
	do(t, s, "k", `{}`)
	assert.True(t, mcpidem.Replayed(do(t, s, "k", `{}`)), "no verdict")
}
