package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/check"
)

// apiFlags say what is known of the API.
type apiFlags struct {
	keyHeader, otherBody, otherRoute, restart, contract string
	otherCaller, credentials                            []string
	clientError, tooMany, serverError                   string
	kept                                                time.Duration
}

func (f *apiFlags) addTo(c *cobra.Command) {
	const trouble = "header:NAME: VALUE, body:TEXT, or run:COMMAND, which is run with on and off"
	flags := c.Flags()
	flags.StringVar(&f.keyHeader, "key-header", "Idempotency-Key", "header field of the key")
	flags.StringVar(&f.otherBody, "other-body", "", "another valid body, or @FILE; by default another number or string in the body")
	flags.StringVar(&f.otherRoute, "other-route", "", `another operation of the API, 'POST /refunds {"amount":1}'`)
	flags.StringArrayVar(&f.otherCaller, "other-caller", nil, "credentials of a second caller, 'Authorization: Bearer …'")
	flags.StringSliceVar(&f.credentials, "credential", nil, "names of the fields that carry credentials; by default Authorization, Cookie, X-Api-Key")
	flags.StringVar(&f.clientError, "client-error", "", "what makes the API answer 400 to 428: "+trouble+"; by default the body without its last byte")
	flags.StringVar(&f.tooMany, "too-many", "", "what makes the API answer 429, as --client-error")
	flags.StringVar(&f.serverError, "server-error", "", "what makes the API answer 500 to 599, as --client-error")
	flags.StringVar(&f.restart, "restart", "", "command that restarts the service")
	flags.DurationVar(&f.kept, "kept", 0, "how long the API promises to replay answers")
	flags.StringVar(&f.contract, "contract", "", "check this contract to the letter: ietf, stripe or acp")
}

// setTarget adds what is known to the target.
func (f *apiFlags) setTarget(t *check.Target) (err error) {
	t.KeyHeader, t.Credentials, t.Kept, t.Contract = f.keyHeader, f.credentials, f.kept, f.contract
	if f.otherBody != "" {
		if t.OtherBody, err = readBody(f.otherBody); err != nil {
			return fmt.Errorf("--other-body: %w", err)
		}
	}
	if f.otherRoute != "" {
		if t.OtherRoute, err = readRoute(f.otherRoute, &t.Request); err != nil {
			return err
		}
	}
	if len(f.otherCaller) > 0 {
		t.OtherCaller = make(http.Header)
		if err := addFields(t.OtherCaller, f.otherCaller, "--other-caller"); err != nil {
			return err
		}
	}
	for _, one := range []struct {
		flag, text string
		to         **check.Trouble
	}{
		{"--client-error", f.clientError, &t.ClientError}, {"--too-many", f.tooMany, &t.TooMany}, {"--server-error", f.serverError, &t.ServerError},
	} {
		if *one.to, err = readTrouble(one.text); err != nil {
			return fmt.Errorf("%s: %w", one.flag, err)
		}
	}
	if f.restart != "" {
		t.Restart = func(ctx context.Context) error { return runShell(exec.CommandContext(ctx, "sh", "-c", f.restart)) } //nolint:gosec // the user names the command
	}
	return nil
}

// readTrouble reads what makes an API fail. It returns nil for an empty text.
func readTrouble(text string) (*check.Trouble, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no trouble is known
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch rest = strings.TrimSpace(rest); {
	case rest == "":
	case kind == "header":
		t := &check.Trouble{Header: make(http.Header)}
		return t, addFields(t.Header, []string{rest}, "header:")
	case kind == "body":
		body, err := readBody(rest)
		return &check.Trouble{Body: body}, err
	case kind == "run":
		run := func(word string) func(context.Context) error {
			return func(ctx context.Context) error { return runShell(exec.CommandContext(ctx, "sh", "-c", rest+" "+word)) } //nolint:gosec // the user names the command
		}
		return &check.Trouble{On: run("on"), Off: run("off")}, nil
	}
	return nil, errors.New("write header:NAME: VALUE, body:TEXT or run:COMMAND")
}

// insecureTLS returns how to reach an API whose certificate is not verified, or nil.
func insecureTLS(insecure bool) *tls.Config {
	if !insecure {
		return nil
	}
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // --insecure asks for it
}
