// Package rpcidemtest is the contract of package rpcidem as a black-box suite: every adapter must
// pass it. It calls a method over whatever protocol the adapter is for, and knows nothing of that.
package rpcidemtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// Error is what a method of the suite fails with: the adapter's test makes it an error of its
// protocol.
type Error struct {
	Code    rpcidem.Code
	Message string
	// Reason and RetryAfter, if they are set, are told as a refusal of package rpcidem tells them:
	// ErrorInfo with the domain [rpcidem.Domain], and RetryInfo.
	Reason     string
	RetryAfter time.Duration
	// Mark is put around the protocol's error; may be nil.
	Mark func(error) error
}

func (e *Error) Error() string { return fmt.Sprint(e.Code, ": ", e.Message) }

// Method is what runs behind the guard. It may panic.
type Method func(ctx context.Context, request string) (reply string, err *Error)

// Call is one call from outside, over the wire. Its tenant goes in the metadata "tenant".
type Call struct {
	Tenant  string
	Keys    []string // values of the key's metadata
	Request string
}

// Answer is what a caller got.
type Answer struct {
	Reply   string
	Code    rpcidem.Code
	Message string
	// Reason and RetryAfter are those of ErrorInfo and RetryInfo, the domain being
	// [rpcidem.Domain].
	Reason     string
	RetryAfter time.Duration
	// Replayed and Unconfirmed are told in the metadata of the answer: idempotency-replayed: true,
	// idempotency-stored: unconfirmed.
	Replayed, Unconfirmed bool
}

// Tenant is the Tenant of the suite's options.
func Tenant(_ context.Context, md rpcidem.Metadata) (string, error) {
	if who := md("tenant"); len(who) == 1 && who[0] != "unknown" {
		return who[0], nil
	} else if len(who) == 0 {
		return "", nil
	}
	return "", fmt.Errorf("the secret reason why nobody knows the caller")
}

// Path is the full name of the method.
const Path = "/rpcidemtest.Suite/Do"

// Setup is a server and a client that a test wants.
type Setup struct {
	Engine  *retrysafe.Engine
	Options *rpcidem.Options
	// Client are the options of the client's part of the adapter; never nil.
	Client *rpcidem.ClientOptions
	Method Method
	// Between stands on the server before the guard, and sees each try that came over the wire: it
	// lets the guard answer by next, and may fail in its place, whether or not the guard has
	// answered. Nil: it is not there.
	Between func(next func()) *Error
}

// Open starts a server with the method behind a guard, and a client; a panic of the method must end
// only its call. What it started ends with the test. The context of a call may have a key
// ([github.com/retrysafe/retrysafe/httpidem.ContextWithKey]).
type Open func(t *testing.T, s *Setup) func(ctx context.Context, c Call) Answer

type part struct {
	name string
	run  func(*testing.T, Open)
}

// Run runs the suite of servers. Its calls are tried once.
func Run(t *testing.T, open Open) {
	t.Helper()
	runParts(t, open, []part{
		{"Once", testOnce},
		{"Keys", testKeys},
		{"Endings", testEndings},
		{"Crashes", testCrashes},
		{"InProgress", testInProgress},
		{"HangUp", testHangUp},
		{"NotKept", testNotKept},
		{"StoreDown", testStoreDown},
		{"Limits", testLimits},
		{"Duplicates", testDuplicates},
	})
}

// RunClient runs the suite of clients: which key goes with a call, and what is sent again.
func RunClient(t *testing.T, open Open) {
	t.Helper()
	runParts(t, open, []part{
		{"LostAnswers", testLostAnswers},
		{"SentAgain", testSentAgain},
		{"Chain", testChain},
	})
}

func runParts(t *testing.T, open Open, parts []part) {
	t.Helper()
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t, open)
		})
	}
}
