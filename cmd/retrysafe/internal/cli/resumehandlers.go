package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// exitNotDone is the exit code of a command that has certainly done nothing. sysexits.h calls it
// EX_TEMPFAIL.
const exitNotDone = 75

// callDetails is what a program gets to know about the call that it finishes.
type callDetails struct {
	key            retrysafe.Key
	attempt, fence string
	steps          string
}

// callDetailsOf returns the call. It refuses a call that no program may finish without an operator.
func callDetailsOf(ctx context.Context) (c callDetails, err error) {
	a, _ := retrysafe.AttemptFrom(ctx)
	p, err := a.Progress()
	if err != nil {
		return c, retrysafe.InDoubt(err)
	}
	done, begun := stepNames(&p)
	if len(begun) > 0 {
		return c, retrysafe.InDoubt(fmt.Errorf("the steps %q may run at most once, and their outcome is unknown", begun))
	}
	steps, err := json.Marshal(done)
	return callDetails{a.Key(), strconv.Itoa(a.Number()), strconv.FormatUint(uint64(a.Fence()), 10), string(steps)}, err
}

// programAnswer returns what a program has answered.
func programAnswer(body []byte) (retrysafe.Answer, error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) > retrysafe.MaxStored:
		return retrysafe.Answer{}, retrysafe.InDoubt(fmt.Errorf("it is done, and its answer has %d bytes, more than are kept", len(body)))
	case len(body) == 0:
		return retrysafe.Answer{Codec: "json", Body: []byte("null"), Kept: true}, nil
	case json.Valid(body):
		return retrysafe.Answer{Codec: "json", Body: body, Kept: true}, nil
	}
	return retrysafe.Answer{Codec: "raw", Body: body, Kept: true}, nil
}

// execCommand finishes a call with a command.
func (f *resumeFlags) execCommand(ctx context.Context, input retrysafe.Answer) (retrysafe.Answer, error) {
	call, err := callDetailsOf(ctx)
	if err != nil {
		return retrysafe.Answer{}, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", f.exec) //nolint:gosec // the user's own command
	cmd.WaitDelay = time.Second
	detachFromTerminal(cmd) // an interrupt stops only this command; its child may finish
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return isSecretVariable(v) }),
		"RETRYSAFE_KEY="+call.key.ID, "RETRYSAFE_TENANT="+call.key.Tenant, "RETRYSAFE_OPERATION="+call.key.Operation,
		"RETRYSAFE_ATTEMPT="+call.attempt, "RETRYSAFE_FENCE="+call.fence, "RETRYSAFE_STEPS="+call.steps)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input.Body), &out, os.Stderr
	if err := cmd.Start(); err != nil {
		return retrysafe.Answer{}, retrysafe.NothingDone(fmt.Errorf("--exec: %w", err))
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == exitNotDone:
		return retrysafe.Answer{}, retrysafe.NothingDone(fmt.Errorf("--exec: %w", err))
	case err != nil:
		return retrysafe.Answer{}, retrysafe.InDoubt(fmt.Errorf("--exec: %w", err))
	}
	return programAnswer(out.Bytes())
}

// client follows no redirects: they would send the input elsewhere.
var noRedirectClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// saysNotDone reports whether an answer says that nothing was done. A redirect does not: it may be
// that of a service that has acted.
func saysNotDone(resp *http.Response) bool {
	switch resp.Header.Get("Idempotency-Outcome") {
	case "not-executed":
		return true
	case "executed":
		return false
	}
	return resp.StatusCode >= 400 && httpidem.NotRun(resp.StatusCode)
}

// headerValue returns a part of a key for a header: unchanged if it is ASCII, else percent-encoded.
func headerValue(part, quote string) string {
	if strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r > '~' || quote != "" && (r == '"' || r == '\\') }) {
		part = url.PathEscape(part)
	}
	return quote + part + quote
}

// postRequest finishes a call with a request.
func (f *resumeFlags) postRequest(ctx context.Context, input retrysafe.Answer) (retrysafe.Answer, error) {
	call, err := callDetailsOf(ctx)
	if err != nil {
		return retrysafe.Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.post, bytes.NewReader(input.Body))
	if err != nil {
		return retrysafe.Answer{}, retrysafe.NothingDone(fmt.Errorf("--post: %w", err))
	}
	r.GetBody = nil // the transport must not send it again
	r.Header.Set("Content-Type", "application/octet-stream")
	if input.Codec == "json" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{
		"Idempotency-Key": headerValue(call.key.ID, `"`), "Idempotency-Attempt": call.attempt, "Idempotency-Fence": call.fence,
		"Retrysafe-Tenant": headerValue(call.key.Tenant, ""), "Retrysafe-Operation": headerValue(call.key.Operation, ""), "Retrysafe-Steps": call.steps,
	} {
		r.Header.Set(name, value)
	}
	resp, err := noRedirectClient.Do(r)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return retrysafe.Answer{}, retrysafe.NothingDone(fmt.Errorf("--post: %w", err))
		}
		return retrysafe.Answer{}, retrysafe.InDoubt(fmt.Errorf("--post: %w", err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, retrysafe.MaxStored+1))
	switch {
	case saysNotDone(resp):
		return retrysafe.Answer{}, retrysafe.NothingDone(fmt.Errorf("--post: status %d", resp.StatusCode))
	case err != nil:
		return retrysafe.Answer{}, retrysafe.InDoubt(fmt.Errorf("--post: %w", err))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return retrysafe.Answer{}, retrysafe.InDoubt(fmt.Errorf("--post: status %d", resp.StatusCode))
	}
	return programAnswer(body)
}

// isSecretVariable reports whether a variable is one that a program which finishes calls does not
// need.
func isSecretVariable(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == "RETRYSAFE_SECRET" || name == storeVariable || name == "RETRYSAFE_BROKER"
}
