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
)

// Options change a [Deletion], a [Count] or a [Lock]; nil and every zero field are fine.
type Options struct {
	// Namespace is the application: two on one server do not meet. Default "app".
	Namespace string
	// Prefix stands before each key's text; default "rs-classic:". It must not be that of a store.
	Prefix string
	// Life is how long a token may be used, default 5 minutes, and how long a lock is held at most,
	// default 30 seconds; at least 1 ms.
	Life time.Duration
}

// Validate says what is wrong with o; the constructors panic on what it refuses.
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

// keeper is what the variants have in common: scripts on one key each.
type keeper struct {
	client redisclient.Client
	o      Options
	what   string // the operation of its keys, so that the variants do not meet
}

func newKeeper(c redisclient.Client, o *Options, what string, life time.Duration) keeper {
	if c == nil {
		panic("classic: a client is needed; the adapters rueidisclient and goredisclient make one")
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	k := keeper{client: c, what: what}
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

// name is the key on the server.
func (k *keeper) name(tenant, id string) (string, error) {
	key := retrysafe.StoreKey{
		Namespace: k.o.Namespace, Layer: "classic",
		Key: retrysafe.Key{Tenant: retrysafe.KeyPart(tenant), Operation: k.what, ID: retrysafe.KeyPart(id)},
	}
	if err := key.Validate(); err != nil {
		return "", err
	}
	text, err := key.AppendText([]byte(k.o.Prefix))
	return string(text), err
}

// eval runs a script that answers with a number.
func (k *keeper) eval(ctx context.Context, s *redisclient.Script, name string, args ...string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r := k.client.Eval(ctx, redisclient.Call{Script: s, Keys: []string{name}, Args: args})
	if r.Err != nil {
		return 0, fmt.Errorf("classic: the server gave no answer, or refused; nobody knows whether the %s was written: %w", k.what, r.Err)
	}
	n, ok := r.Value.(int64)
	if !ok {
		return 0, errors.New("classic: the server's reply is not that of the script; is there a proxy in between that changes replies?")
	}
	return n, nil
}

// life is Life in milliseconds, as PX takes it.
func (k *keeper) life() string { return strconv.FormatInt(k.o.Life.Milliseconds(), 10) }

// random is 192 bits as URL-safe text: what cannot be guessed, and what nobody else has.
func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// issue writes a new token, and returns it once the server has it.
func (k *keeper) issue(ctx context.Context, tenant string, s *redisclient.Script, args ...string) (string, error) {
	token := random()
	name, err := k.name(tenant, token)
	if err != nil {
		return "", err
	}
	n, err := k.eval(ctx, s, name, append(args, k.life())...)
	if err != nil {
		return "", err
	}
	if n != 1 {
		return "", errors.New("classic: the token is there already, which 192 random bits rule out; does somebody else write under this prefix?")
	}
	return token, nil
}
