package mcpidem_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// asking is a tool that asks its user before it pays.
func asking(paid *atomic.Int64) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "Pay?", RequestedSchema: schema}},
				RequestState:  "asked",
			}, nil
		}
		if r, ok := req.Params.InputResponses["sure"].(*mcp.ElicitResult); !ok || r.Action != "accept" {
			return text("not paid"), nil
		}
		return text("payment %d", paid.Add(1)), nil
	}
}

// answers returns the options of a client whose user gives this answer, and counts the questions.
func answers(action string, asked *atomic.Int64) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: action, Content: map[string]any{}}, nil
	}}
}

// TestInput: the rounds in which a tool asks for input are one call. A duplicate from the
// beginning gets the result, asks no one and pays nothing, also if its user would answer otherwise.
func TestInput(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		var paid, asked atomic.Int64
		d := newDesk(t, nil, nil, asking(&paid))
		res := do(t, d.join(version, answers("accept", &asked)), "k", `{}`)
		assert.Equal(t, says(res), "payment 1", "%s: the first", version)
		for _, again := range versions {
			res = do(t, d.join(again, answers("decline", &asked)), "k", `{}`)
			assert.True(t, says(res) == "payment 1" && mcpidem.Replayed(res), "%s, then %s: %s", version, again, says(res))
		}
		assert.Equal(t, [2]int64{paid.Load(), asked.Load()}, [2]int64{1, 1}, "%s: payments and questions", version)
	}
}

// TestInputAbandoned: a client that goes away between two rounds leaves its key free.
func TestInputAbandoned(t *testing.T) {
	t.Parallel()
	var paid, asked atomic.Int64
	d := newDesk(t, nil, nil, asking(&paid))
	gone := d.join(versions[0], &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	for range 2 {
		res := do(t, gone, "k", `{}`)
		assert.True(t, res.NeedsInput() && res.RequestState == "asked", "the question: %+v", res)
	}
	res := do(t, d.join(versions[0], answers("accept", &asked)), "k", `{}`)
	assert.True(t, says(res) == "payment 1" && !mcpidem.Replayed(res), "the repeat: %s", says(res))
	res = do(t, gone, "k", `{}`)
	assert.True(t, !res.NeedsInput() && says(res) == "payment 1" && mcpidem.Replayed(res), "a late first round: %s", says(res))
}

// TestInputAfterStep: an effect before a question, in a step, never happens twice. The server asks
// an older client by itself and runs the tool again in the same attempt, where a step of the same
// name is refused.
func TestInputAfterStep(t *testing.T) {
	t.Parallel()
	for version, payments := range map[string]int64{versions[0]: 1, versions[1]: 0} {
		var paid, asked, reserved atomic.Int64
		pay := asking(&paid)
		d := newDesk(t, nil, nil, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if _, err := retrysafe.Step(ctx, "reserve", func(context.Context) (int64, error) { return reserved.Add(1), nil }); err != nil {
				return nil, err
			}
			return pay(ctx, req)
		})
		res, err := call(t, d.join(version, answers("accept", &asked)), params("k", `{}`))
		assert.True(t, (err == nil) == (payments == 1), "%s: %v, %v", version, res, err)
		assert.Equal(t, [2]int64{reserved.Load(), paid.Load()}, [2]int64{1, payments}, "%s: reservations and payments", version)
	}
}

// TestElicit: a tool that asks its client while it runs has the attempt's context, and its question
// is part of the call.
func TestElicit(t *testing.T) {
	t.Parallel()
	var asked, paid atomic.Int64
	e := engine(t, memstore.New(nil))
	server := mcp.NewServer(&mcp.Implementation{Name: "desk"}, quiet)
	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if _, ok := retrysafe.AttemptFrom(ctx); !ok {
			return nil, nil, errors.New("no attempt")
		}
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Pay?", RequestedSchema: schema})
		if err != nil {
			return nil, nil, retrysafe.NothingDone(err)
		}
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: 1, Progress: 0.5}); err != nil {
			return nil, nil, err
		}
		return text("%s: payment %d", answer.Action, paid.Add(1)), nil, nil
	})
	server.AddReceivingMiddleware(mcpidem.Server(e, &mcpidem.Options{Tenant: mcpidem.Global}))
	d := &desk{t: t, server: server}
	cannot := do(t, d.join(versions[1], nil), "k", `{}`)
	assert.True(t, cannot.IsError, "a client that cannot be asked: %s", says(cannot))
	for i := range 2 {
		res := do(t, d.join(versions[1], answers("accept", &asked)), "k", `{}`)
		assert.True(t, says(res) == "accept: payment 1" && mcpidem.Replayed(res) == (i == 1), "call %d: %s", i, says(res))
	}
	assert.Equal(t, [2]int64{asked.Load(), paid.Load()}, [2]int64{1, 1}, "questions and payments")
}
