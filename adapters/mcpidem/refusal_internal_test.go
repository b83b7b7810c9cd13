package mcpidem

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// plain are the refusals whose text in package rpcidem a model understands as it is: none of them
// asks for a choice between a retry and a new key.
var plain = map[retrysafe.Code]bool{
	retrysafe.CodeKeyTooShort: true, retrysafe.CodeTenantMissing: true, retrysafe.CodeResolvedFailed: true,
	retrysafe.CodeTooManyKeys: true, retrysafe.CodeTooManyRequests: true, retrysafe.CodeStoreUnavailable: true,
	retrysafe.CodeShuttingDown: true, retrysafe.CodeRequestUnreadable: true, retrysafe.CodeStreamNotGuarded: true,
}

// TestAdvice: somebody has decided for each refusal whether a model needs other words.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for _, reason := range rpcidem.Reasons() {
		code, ok := retrysafe.ParseCode(reason)
		assert.True(t, ok, "%s is a code", reason)
		assert.True(t, plain[code] != (advice[code] != ""), "advice has words for a model about %v, or plain says that its text will do", code)
	}
}
