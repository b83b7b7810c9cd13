// Package rpcidemtest tests the contract of package rpcidem as a black-box suite. Every adapter
// must pass it. The suite calls a method over the adapter's protocol, about which it knows nothing.
package rpcidemtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// Error is the error that a method of the suite returns. The adapter's test turns it into an error
// of its protocol.
type Error struct {
	Code    rpcidem.Code
	Message string
	// Reason and RetryAfter, if set, are sent like those of a refusal of package rpcidem: as
	// ErrorInfo with the domain [rpcidem.Domain], and as RetryInfo.
	Reason     string
	RetryAfter time.Duration
	// Mark wraps the protocol's error; may be nil.
	Mark func(error) error
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprint(e.Code, ": ", e.Message) }

// Method is the method that the guard guards. It may panic.
type Method func(ctx context.Context, request string) (reply string, err *Error)

// Call is one call over the wire. Its tenant goes in the metadata "tenant".
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
	// Reason and RetryAfter are those of ErrorInfo and RetryInfo, with the domain [rpcidem.Domain].
	Reason     string
	RetryAfter time.Duration
	// Replayed and Unconfirmed come from the metadata of the answer: idempotency-replayed: true,
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

// Setup is the server and the client that a test needs.
type Setup struct {
	Engine  *retrysafe.Engine
	Options *rpcidem.Options
	// Client holds the options of the client side of the adapter; never nil.
	Client *rpcidem.ClientOptions
	Method Method
	// Between runs on the server before the guard, and gets each try that came over the wire. It
	// calls next to let the guard answer. It may also fail instead, whether or not the guard has
	// answered. nil means that there is none.
	Between func(next func()) *Error
}

// Open starts a server with the guarded method, and a client. A panic of the method must end only
// its call. Everything that Open started ends with the test. The context of a call may have a key
// ([github.com/retrysafe/retrysafe/httpidem.ContextWithKey]).
type Open func(t *testing.T, s *Setup) func(ctx context.Context, c Call) Answer

type part struct {
	name string
	run  func(*testing.T, Open)
}

// Run runs the suite of servers. Each of its calls is tried once.
func Run(t *testing.T, open Open) {
	t.Helper()
	runParts(t, open, []part{
		{"Once", testOnce},
		{"Keys", testKeys},
		{"Endings", testOutcomes},
		{"Crashes", testCrashes},
		{"InProgress", testInProgress},
		{"HangUp", testHangUp},
		{"NotKept", testNotKept},
		{"Texts", testTexts},
		{"StoreDown", testStoreDown},
		{"Limits", testLimits},
		{"Duplicates", testDuplicates},
	})
}

// RunClient runs the suite of clients: which key goes with a call, and what is retried.
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
