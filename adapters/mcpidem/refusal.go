package mcpidem

import (
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// advice are the texts of refusals that a model has to understand. It may not know that there is a
// key. Other refusals have the text of package rpcidem.
var advice = map[retrysafe.Code]string{
	retrysafe.CodeInProgress:     "the same call is still running, and was not started again; do not send it with another key or other arguments",
	retrysafe.CodeAttemptFailed:  "the call that this one waited for ended without a result; this call did nothing",
	retrysafe.CodeLeaseLost:      "another server has taken this call over; the same call gets its result",
	retrysafe.CodeOutcomeUnknown: "it is unknown whether this call has taken effect, and it is not run again. Do not repeat it with another key or other arguments: it could take effect twice. Find out whether it took effect, or ask a person",
	retrysafe.CodeAlreadyDone:    "this call was made before and took effect; do not repeat it. Look up what it did",
	retrysafe.CodeAnswerNotKept:  "this call was made before and took effect, and its result was not stored; do not repeat it. Look up what it did",
	retrysafe.CodeAnswerNotReadable: "this call was made before and took effect, and its result cannot be read here; do not repeat it. " +
		"Look up what it did",
	retrysafe.CodePayloadMismatch:  "this idempotency key was used with other arguments, and nothing was done. A new key is for a new action only, not to repeat one",
	retrysafe.CodeKeyMissing:       "this tool needs an idempotency key in _meta: a random one for each action, and the same one in each retry; nothing was done",
	retrysafe.CodeKeyMalformed:     "the idempotency key is not a string of 1 to 255 characters of printable ASCII, or is there twice; nothing was done",
	retrysafe.CodePrincipalChanged: "this idempotency key was used with another credential; nothing was done for this call",
}

// toolError returns a refusal as the result that the client of req gets. It names the argument that
// has the key.
func (g *guards) toolError(req *mcp.CallToolRequest, r *rpcidem.Refusal) *mcp.CallToolResult {
	res := toolError(req, r)
	if r.Reason == "KEY_MISSING" && g.o.Argument != "" {
		text := fmt.Sprintf("%s: this tool needs an idempotency key in its argument %q: a random one for each action, and the same one in each retry; nothing was done", r.Reason, g.o.Argument)
		res.Content = []mcp.Content{&mcp.TextContent{Text: text}}
	}
	return res
}

// toolError returns a refusal as the result that the client of req gets.
func toolError(req *mcp.CallToolRequest, r *rpcidem.Refusal) *mcp.CallToolResult {
	text := r.Message
	code, _ := retrysafe.ParseCode(r.Reason)
	if own, ok := advice[code]; ok {
		text = own
	}
	res := new(mcp.CallToolResult)
	if expectsResultType(req) {
		// the only way to set the type
		_ = res.UnmarshalJSON([]byte(`{"content":[],"resultType":"complete"}`))
	}
	res.IsError, res.Meta = true, mcp.Meta{ReasonMeta: r.Reason}
	if r.RetryAfter > 0 {
		res.Meta[RetryAfterMeta] = max(r.RetryAfter.Milliseconds(), 1)
		text = fmt.Sprintf("%s; call again with the same key and arguments in %v", text, r.RetryAfter.Round(time.Millisecond))
	}
	res.Content = []mcp.Content{&mcp.TextContent{Text: r.Reason + ": " + text}}
	return res
}

// Reason returns the reason of a tool error of this package. It returns false for any other result.
func Reason(res *mcp.CallToolResult) (string, bool) {
	if res == nil || !res.IsError {
		return "", false
	}
	reason, _ := res.Meta[ReasonMeta].(string)
	return reason, slices.Contains(rpcidem.Reasons(), reason)
}

// Replayed reports whether a result is that of an earlier call.
func Replayed(res *mcp.CallToolResult) bool {
	replayed, _ := res.Meta[ReplayedMeta].(bool)
	return replayed
}
