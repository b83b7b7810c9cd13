// Package mcpidem makes the tool calls of agents safe to repeat. It has middleware for both sides
// of the Model Context Protocol, over any transport of the official Go SDK.
//
//	server.AddReceivingMiddleware(mcpidem.Server(engine, &mcpidem.Options{Tenant: mcpidem.User}))
//	client.AddSendingMiddleware(mcpidem.Client(nil))
//	session.CallTool(httpidem.ContextWithKey(ctx, "order-7"), params)
//
// An agent repeats a call whose answer it has not seen, and often in a new session. The server runs
// a tool once for each tenant, tool and key, and replays the first result to duplicates: content,
// structuredContent, isError and _meta, with [ReplayedMeta] added to _meta. Tools with the
// annotation readOnlyHint are not guarded.
//
// The key of a call is the first of these: a string in the call's _meta ([DefaultMeta]), the header
// Idempotency-Key of its HTTP request, an argument of the tool ([Options].Argument), and, with
// [Derived], a digest of tool and arguments, which counts for ten seconds. A duplicate must have
// the same arguments; they are compared by meaning.
//
// What a tool returned decides about its key:
//
//	a result without isError                    stored and replayed
//	a result with isError, another error        under Refuse stored and replayed; under Reexecute a retry runs
//	a request for input (inputRequests)         released: the next round is part of the same call
//	JSON-RPC -32602, invalid params             stored and replayed
//	JSON-RPC -32700, -32600, -32601,            released: the tool did not run
//	  -32020, -32021, -32022, -32042
//	an error marked retrysafe.NothingDone       released: a retry runs
//	an error marked retrysafe.InDoubt, a panic  under Refuse in doubt; under Reexecute a retry runs
//
// Marks take precedence. The typed handlers of mcp.AddTool return a marked error as it is. Others
// use SetError of their result, or return the error. A handler that asks for input must not have
// had an effect before: it runs again from its beginning.
//
// The work's context does not end with the call: a client that goes away stops nothing, and its
// retry gets the result. A wait for the client, as in ServerSession.Elicit, needs a time limit of
// its own.
//
// Everything else is a tool error, which the model sees. Its text says what to do, and its _meta
// has the reason ([ReasonMeta]) and, if a retry may be answered differently, a time to retry after
// ([RetryAfterMeta]). docs/rpc.md lists them. Package rpcidem has the reasons and the guard, and
// guards gRPC, Connect and Kratos in the same way.
package mcpidem
