package mcpidem_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// full is a result with everything that a result can have. Its numbers are too large for a
// float64.
func full() *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta: mcp.Meta{"shop/id": json.RawMessage(`9007199254740993`), "shop/list": []any{"a", nil, true}},
		Content: []mcp.Content{
			&mcp.TextContent{Text: "paid <b>\u2028 & done", Annotations: &mcp.Annotations{Priority: 0.5, Audience: []mcp.Role{"user"}}},
			&mcp.ImageContent{Data: []byte{0, 1, 255}, MIMEType: "image/png"},
			&mcp.AudioContent{Data: []byte{7}, MIMEType: "audio/wav"},
			&mcp.ResourceLink{URI: "shop://receipt/7", Name: "receipt"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "shop://receipt/7", Text: "7 EUR"}},
		},
		StructuredContent: json.RawMessage(`{"id":9007199254740993,"amount":10.50}`),
		IsError:           true,
	}
}

// seen returns the JSON of the results that come out of a server, before any client parses them.
func seen(into *[]string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if method == "tools/call" && err == nil {
				text, errJSON := json.Marshal(res)
				if errJSON != nil {
					return nil, errJSON
				}
				*into = append(*into, string(text))
			}
			return res, err
		}
	}
}

// TestReplaysAreWhole: a replayed result is the first one, byte for byte, with a mark. Clients of
// another version of the protocol get the form that they know.
func TestReplaysAreWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return full(), nil })
	var texts []string
	d.server.AddReceivingMiddleware(seen(&texts))
	for _, version := range []string{versions[0], versions[0], versions[1]} {
		do(t, d.join(version, nil), "k", `{}`)
	}
	members := func(text string) map[string]json.RawMessage {
		var m map[string]json.RawMessage
		assert.NoError(t, json.Unmarshal([]byte(text), &m), "parse %s", text)
		return m
	}
	first, again, older := members(texts[0]), members(texts[1]), members(texts[2])
	for _, name := range []string{"content", "structuredContent", "isError"} {
		assert.Equal(t, string(again[name]), string(first[name]), "%s", name)
		assert.Equal(t, string(older[name]), string(first[name]), "%s to an older client", name)
	}
	assert.Equal(t, string(first["resultType"])+string(again["resultType"])+string(older["resultType"]), `"complete""complete"`, "the types")
	assert.Equal(t, string(again["_meta"]), strings.TrimSuffix(string(again["_meta"]), "}")+"}", "an object")
	assert.Contains(t, string(again["_meta"]), `"retrysafe/replayed":true`, "the mark")
	assert.Contains(t, string(again["_meta"]), `"shop/id":9007199254740993`, "a large number")
	assert.True(t, !strings.Contains(string(first["_meta"]), "replayed"), "the first is not marked: %s", first["_meta"])
	assert.Equal(t, d.runs.Load(), int64(1), "runs")
}

// TestOlderFirst: a result that a client of an older version got first has a type for a newer one.
func TestOlderFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, nil)
	var texts []string
	d.server.AddReceivingMiddleware(seen(&texts))
	do(t, d.join(versions[1], nil), "k", `{}`)
	do(t, d.join(versions[0], nil), "k", `{}`)
	do(t, d.join(versions[0], nil), "k", `{"other":1}`)
	assert.True(t, !strings.Contains(texts[0], "resultType"), "the older one: %s", texts[0])
	assert.Contains(t, texts[1], `"resultType":"complete"`, "the replay")
	assert.Contains(t, texts[2], `"resultType":"complete"`, "a tool error of the guard")
}

// TestErrorsAreReplayed: a duplicate gets the code, the message and the data of an error of the
// protocol.
func TestErrorsAreReplayed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, breaks(&jsonrpc.Error{Code: -32001, Message: "no such card", Data: json.RawMessage(`{"card":7}`)}))
	for i := range 2 {
		_, err := call(t, d.join("", nil), params("k", `{}`))
		assert.ErrorIs(t, err, &jsonrpc.Error{Code: -32001}, "answer %d", i)
		assert.Contains(t, err.Error(), "no such card", "answer %d", i)
	}
	assert.Equal(t, d.runs.Load(), int64(1), "runs")
}

// TestNotKept: a result over the limit is given once. A duplicate gets an error that says that it
// took effect.
func TestNotKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{MaxAnswer: 1000}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", strings.Repeat("x", 5000)), nil
	})
	s := d.join("", nil)
	assert.Equal(t, len(says(do(t, s, "k", `{}`))), 5000, "the first")
	refused(t, do(t, s, "k", `{}`), "ANSWER_NOT_KEPT", false)
	assert.Equal(t, d.runs.Load(), int64(1), "runs")
}
