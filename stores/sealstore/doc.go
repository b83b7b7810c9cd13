// Package sealstore encrypts what a store keeps of the work: answers, steps and their input,
// refusals, and the texts of errors. The store, its backups and its operators see ciphertext.
//
// Each tenant has a data key of its own. Master keys, which only the program has (see [Ring]), wrap
// the data keys. [Store.Forget] destroys a tenant's data key, and with it every answer of the
// tenant. A duplicate whose answer cannot be opened runs nothing: retrysafe.Do returns
// retrysafe.ErrAnswerSealed, and over HTTP it is the problem answer-not-kept.
//
// Keys, states, times, causes, fingerprints and the sizes of answers are not encrypted: the inner
// store decides by them. docs/sealed.md says what that discloses, and how to rotate master keys.
package sealstore
