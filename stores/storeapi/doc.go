// Package storeapi is what a store of retrysafe implements: the interface [Store], its optional
// interfaces, their requests and answers, and the record that a store keeps for a key.
//
// It is for authors of stores and adapters. Package retrysafe has aliases for what callers see
// too. storetest.Run tests a store, and docs/add-a-store.md leads through writing one.
package storeapi
