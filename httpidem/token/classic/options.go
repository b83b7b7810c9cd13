package classic

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configures a [Deletion], a [Count] or a [Lock]. A nil *Options and zero fields mean the
// defaults.
type Options struct {
	// Namespace is the application. It keeps applications on one server apart. Default "app".
	Namespace string
	// Prefix is put before each key's text; default "rs-classic:". It must not be that of a store.
	Prefix string
	// Life is how long a token can be used, default 5 minutes, and the longest time that a lock is
	// held, default 30 seconds. At least 1 ms.
	Life time.Duration
}

// Validate returns an error if o is invalid. The constructors panic on what it refuses.
func (o *Options) Validate() error {
	switch {
	case o == nil:
		return nil
	case o.Life != 0 && o.Life < time.Millisecond:
		return fmt.Errorf("classic: Life is %v; use at least 1ms, or zero for the default", o.Life)
	case o.Prefix == "rs:":
		return errors.New(`classic: Prefix is "rs:", where records are; leave it empty, or choose another`)
	case len(o.Namespace) > retrysafe.MaxPart:
		return fmt.Errorf("classic: Namespace has %d bytes, at most %d are allowed", len(o.Namespace), retrysafe.MaxPart)
	}
	return nil
}

// scriptRunner is the common part of the variants: scripts on one key each.
type scriptRunner struct {
	client    redisclient.Client
	o         Options
	operation string // the operation in its keys, which keeps the variants apart
}

func newScriptRunner(c redisclient.Client, o *Options, what string, life time.Duration) scriptRunner {
	if c == nil {
		panic("classic: a client is needed; the adapters rueidisclient and goredisclient make one")
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	k := scriptRunner{client: c, operation: what}
	if o != nil {
		k.o = *o
	}
	if k.o.Namespace == "" {
		k.o.Namespace = "app"
	}
	if k.o.Prefix == "" {
		k.o.Prefix = "rs-classic:"
	}
	if k.o.Life == 0 {
		k.o.Life = life
	}
	return k
}

// keyName returns the key on the server.
func (k *scriptRunner) keyName(tenant, id string) (string, error) {
	key := storeapi.StoreKey{
		Namespace: k.o.Namespace, Layer: "classic",
		Key: retrysafe.Key{Tenant: retrysafe.KeyPart(tenant), Operation: k.operation, ID: retrysafe.KeyPart(id)},
	}
	if err := key.Validate(); err != nil {
		return "", err
	}
	text, err := key.AppendText([]byte(k.o.Prefix))
	return string(text), err
}

// runScript runs a script that returns a number.
func (k *scriptRunner) runScript(ctx context.Context, s *redisclient.Script, name string, args ...string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r := k.client.Eval(ctx, redisclient.Call{Script: s, Keys: []string{name}, Args: args})
	if r.Err != nil {
		return 0, fmt.Errorf("classic: the server gave no answer, or refused; it is unknown whether the %s was written: %w", k.operation, r.Err)
	}
	n, ok := r.Value.(int64)
	if !ok {
		return 0, errors.New("classic: the server's reply is not that of the script; is there a proxy in between that changes replies?")
	}
	return n, nil
}

// lifeMillis returns Life in milliseconds, the unit of PX.
func (k *scriptRunner) lifeMillis() string { return strconv.FormatInt(k.o.Life.Milliseconds(), 10) }

// randomText returns 192 random bits as URL-safe text, so that they are unguessable and unique.
func randomText() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// issueToken writes a new token, and returns it once the server has it.
func (k *scriptRunner) issueToken(ctx context.Context, tenant string, s *redisclient.Script, args ...string) (string, error) {
	token := randomText()
	name, err := k.keyName(tenant, token)
	if err != nil {
		return "", err
	}
	n, err := k.runScript(ctx, s, name, append(args, k.lifeMillis())...)
	if err != nil {
		return "", err
	}
	if n != 1 {
		return "", errors.New("classic: the token is there already, which 192 random bits rule out; does somebody else write under this prefix?")
	}
	return token, nil
}
