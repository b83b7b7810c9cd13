// Package storeapi is what a store of retrysafe implements: the interface [Store], its optional
// interfaces, their requests and answers, and the record that a store keeps for a key.
//
// It is for authors of stores and of adapters. Callers pass a ready-made store to retrysafe.New:
// memstore, sqlstore, redisstore, or one of their own. Package retrysafe has aliases for the few
// types that callers see too, such as [Key] and [Record].
//
// storetest.Run tests a store against the clauses of docs/design.md, and docs/add-a-store.md leads
// through writing one.
package storeapi
