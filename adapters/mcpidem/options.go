package mcpidem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// DefaultMeta is the member of a call's _meta that has the key.
const DefaultMeta = "retrysafe/idempotencyKey"

// KeyMode says what happens to a call that has no key.
type KeyMode uint8

// The key modes.
const (
	// Optional runs a call without a key each time that it comes. It is the default.
	Optional KeyMode = iota + 1
	// Required refuses a call without a key: KEY_MISSING.
	Required
	// Derived derives the key from tool and arguments, as Options.Rule says. It detects retries
	// that a model or a client makes by itself, for the seconds of Options.Window. Two orders of
	// the same thing within that time count as one, so clients that can should send a key. The
	// tenant must be known: TENANT_MISSING.
	Derived
)

// Options configure the middleware of a server.
type Options struct {
	// Tenant returns a stable principal of the caller: a user or a service account, never a session
	// or a credential, which change when an agent starts again. It keeps one caller from reading
	// another's result. Required; [User] and [Global] are two. If it returns an error, the caller
	// gets TENANT_MISSING. An empty tenant is anonymous: its keys need MinKey characters.
	Tenant func(ctx context.Context, req *mcp.CallToolRequest) (string, error)
	// Binding returns the credential that a duplicate must also have, or nil. Only a keyed digest
	// of it is stored.
	Binding func(ctx context.Context, req *mcp.CallToolRequest) []byte
	// Key is Optional by default.
	Key KeyMode
	// Meta names the members of _meta that may have the key, a string of 1 to 255 characters of
	// printable ASCII. The first that is present counts. Default: [DefaultMeta].
	Meta []string
	// Headers names the HTTP header fields that may have the key, if the transport is HTTP and
	// _meta has none. The first that is present counts. Default: Idempotency-Key. An empty list
	// that is not nil takes no key from headers.
	Headers []string
	// Argument names the argument of a tool that may have the key, such as "idempotency_key", if
	// _meta and the headers have none. Its value is a string as in Meta; null is no key. It is left
	// out when the arguments of duplicates are compared, and in derived keys. The tool still gets
	// it. Default: no argument has the key.
	Argument string
	// MinKey is the shortest allowed key of the anonymous tenant; default 22, the length of 128
	// bits in base64.
	MinKey int
	// Rule says which arguments count, in keys that are derived and in the comparison of
	// duplicates; the zero Rule counts all of them. After a change of the Rule a duplicate of an
	// earlier call may get PAYLOAD_MISMATCH.
	Rule fingerprint.Rule
	// Window is how long a derived key counts after its call has ended; default
	// [httpidem.DefaultWindow], 10 s, and at least 10 ms. It is for Derived only.
	Window time.Duration
	// Tools reports whether a tool is guarded. Default: all tools without the annotation
	// readOnlyHint. A tool that tools/list does not list has only its name.
	Tools func(*mcp.Tool) bool
	// SkipIdempotent leaves out tools with the annotation idempotentHint, too. It is for servers
	// without Tools.
	SkipIdempotent bool
	// Policy inherits from the engine's policy.
	Policy retrysafe.Policy
	// Rate limits how often a tenant may call a guarded tool, duplicates included; default no
	// limit.
	Rate retrysafe.Rate
	// Classify returns what the result or the error of a tool means for its key, instead of the
	// table of the package. A zero Outcome leaves the decision to the table. Marks and requests for
	// input take precedence. Under Refuse it cannot turn a result into "nothing done". res is nil
	// if err is not.
	Classify func(res *mcp.CallToolResult, err error) retrysafe.Outcome
}

// Global is the Tenant of servers with one key space for all callers: a server over stdio serves
// one user.
func Global(context.Context, *mcp.CallToolRequest) (string, error) { return "global", nil }

// User is the Tenant of servers whose transport verifies a bearer token (auth.RequireBearerToken).
// It returns the token's UserID.
func User(_ context.Context, req *mcp.CallToolRequest) (string, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil || req.Extra.TokenInfo.UserID == "" {
		return "", errors.New("mcpidem: the transport names no user")
	}
	return req.Extra.TokenInfo.UserID, nil
}

// Validate returns an error if o is invalid for an engine with the policy base.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("mcpidem: "+format, args...)) }
	if o.Tenant == nil {
		wrong("Tenant is not set; name the caller by a stable id, or say mcpidem.Global if all callers are one")
	}
	if o.Key > Derived {
		wrong("Key is %d; use Optional, Required or Derived", o.Key)
	}
	if o.Window < 0 || o.Window > 0 && o.Key != Derived {
		wrong("Window is %v and Key is not Derived, or Window is negative; set Key to Derived, or leave Window out", o.Window)
	}
	if o.Key == Derived && o.Window > 0 && o.Window < minWindow {
		wrong("Window is %v; use %v or more, for example 10s", o.Window, minWindow)
	}
	if o.Tools != nil && o.SkipIdempotent {
		wrong("SkipIdempotent is set, and Tools decides already; leave one of them out")
	}
	if strings.ContainsAny(o.Argument, ".[]$") {
		wrong("Argument is %q; use the name of an argument of the tools, for example idempotency_key", o.Argument)
	} else if _, err := o.compareRule().Compile(); err != nil {
		wrong("Rule: %w", err)
	}
	own := o.guardOptions(layer, o.Policy)
	own.Tenant = rpcidem.Global // reported above
	return errors.Join(append(errs, own.Validate(base))...)
}

// compareRule returns the Rule, without the argument that has the key.
func (o *Options) compareRule() fingerprint.Rule {
	own := o.Rule
	if o.Argument != "" {
		own.Ignore = append(slices.Clone(own.Ignore), "$."+o.Argument)
	}
	return own
}

// minWindow is the shortest lease that an engine has; that of a derived key is not longer than its
// window.
const minWindow = 10 * time.Millisecond

// layer and derivedLayer keep the keys of tool calls separate from others in the store, and derived
// keys separate from those that clients choose.
const (
	layer        = "mcp"
	derivedLayer = "mcp-derived"
)

// guardOptions returns the options of a guard. Its functions get the request from the context.
func (o *Options) guardOptions(layer string, p retrysafe.Policy) *rpcidem.Options {
	own := &rpcidem.Options{MinKey: o.MinKey, Policy: p, Rate: o.Rate, Layer: layer}
	if o.Key == Required {
		own.Key = rpcidem.Required
	}
	own.Tenant = func(ctx context.Context, _ rpcidem.Metadata) (string, error) {
		who, err := o.Tenant(ctx, requestFrom(ctx))
		if err == nil && who == "" && layer == derivedLayer {
			err = errors.New("mcpidem: a derived key needs a tenant")
		}
		return who, err
	}
	if o.Binding != nil {
		own.Binding = func(ctx context.Context, _ rpcidem.Metadata) []byte { return o.Binding(ctx, requestFrom(ctx)) }
	}
	if o.Classify != nil {
		own.Classify = func(_ rpcidem.Code, err error) retrysafe.Outcome {
			if a, ok := errors.AsType[*answer](err); ok {
				return o.Classify(a.res, retrysafe.Unmarked(a.err))
			}
			return 0
		}
	}
	return own
}

// derivedPolicy returns the policy of derived keys, which count for the Window.
func (o *Options) derivedPolicy(base retrysafe.Policy) retrysafe.Policy {
	own := o.Policy
	own.Retention = o.Window
	return httpidem.DerivedPolicy(own, base)
}
