// Package tx tests what shares a transaction with the work: DoTx, steps, the outbox and messages.
package tx
