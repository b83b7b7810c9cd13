// Package admin is for the people who run a service: it shows what a store knows, what is in doubt
// and why, and lets them resolve it with a reason.
//
// [Records] has the operations on a store: it lists records, finds one, and resolves it. The
// commands retrysafe keys, dlq and resume use it. [New] serves the operations over HTTP, as JSON,
// with roles, an audit log and a console for a browser:
//
//	records, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: secret})
//	handler, err := admin.New(records, &admin.Options{Tokens: tokens})
//	server := &http.Server{Addr: "127.0.0.1:9090", Handler: handler}
//
// The handler belongs on an address of its own, which clients of the service cannot reach.
//
// # Who may do what
//
// There are three roles. View shows records without their keys, tenants and answers. Reveal shows
// those too. Resolve resolves records, and redrives or discards dead letters. A caller has the
// roles of its token ([Options].Tokens), or those that a trusted server before this one reports
// ([Options].TrustedProxy). If neither is configured, a caller on the loopback interface may view,
// and no other may do anything. A proxy or a forwarder on the same machine makes all its clients
// callers on the loopback interface: configure tokens or a trusted proxy there.
//
// A token through such a server counts as well. No address of it, not even the loopback interface,
// gives a role to a caller that it does not name.
//
// Every change, and every key or answer that is revealed, is written to the [Audit] before it is
// done: who, when, what, and the reason that was given.
package admin
