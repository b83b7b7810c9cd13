package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/gateway/internal/signed"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
)

// signatureOptions is [httpsig.Options] in the file.
type signatureOptions struct {
	Keys        string     `yaml:"keys" default:"required" doc:"file of the keys that are accepted, read again on SIGHUP; a line is: id, algorithm (hmac-sha256, ed25519 or ecdsa-p256-sha256), the key in base64, and if need be not-before=TIME not-after=TIME principal=NAME"`
	Authorities nameList   `yaml:"authorities" default:"any" doc:"hosts by which clients address this service: what was signed for another host is refused"`
	Scheme      schemeName `yaml:"scheme" default:"that of the connection" doc:"https where TLS ends before the gateway"`
	Require     nameList   `yaml:"require" default:"none" doc:"what signatures must cover in any case, such as idempotency-key; method, host, path, query and body always"`
	IfPresent   nameList   `yaml:"if_present" default:"none" doc:"further fields that must be covered where a request has them: all that the service goes by; headers of keys always"`
	Tag         string     `yaml:"tag" default:"retrysafe" doc:"the tag of the signatures that are looked for"`
	MaxAge      duration   `yaml:"max_age" default:"5m" doc:"how old a signature may be, 1s to 24h"`
	Skew        duration   `yaml:"skew" default:"30s" doc:"how far clocks may be off, 1s to 1h"`
}

type schemeName string

func (v *schemeName) UnmarshalYAML(n ast.Node) (err error) {
	*v, err = parseChoice(n, "http https", schemeName("http"), schemeName("https"))
	return err
}

type signatureOrNone orNone[httpsig.Options]

func (v *signatureOrNone) UnmarshalYAML(ctx context.Context, n ast.Node) error {
	if v.isSet = true; isNone(n) {
		return nil
	}
	var c signatureOptions
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	c.Keys = resolveInContext(ctx, c.Keys)
	keys, err := c.readKeys()
	if err != nil {
		return errorAtNode(n, "signature: %s", err)
	}
	v.value = &httpsig.Options{
		Keys: keys, Authorities: c.Authorities, Scheme: string(c.Scheme), Require: c.Require, IfPresent: c.IfPresent, Tag: c.Tag,
		MaxAge: c.MaxAge.d, Skew: c.Skew.d,
	}
	if err := signed.Validate(v.value); err != nil {
		return errorAtNode(n, "%s", err)
	}
	return nil
}

func (c *signatureOptions) readKeys() (httpsig.Keyring, error) {
	if c.Keys == "" {
		return nil, errors.New("keys names no file; write it like signature: {keys: callers.keys}")
	}
	file, err := os.Open(c.Keys)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	ring, err := httpsig.ReadKeyring(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Keys, err)
	}
	return ring, nil
}

// optionsFor returns what a route with these settings requires of signatures. Its limit for bodies
// is that of guarded requests.
func (v signatureOrNone) optionsFor(s *settings, bodyTime time.Duration) *httpsig.Options {
	if v.value == nil {
		return nil
	}
	o := *v.value
	o.MaxBody, o.BodyTime = s.MaxBody.n, bodyTime
	if bodyTime == 0 {
		o.BodyTime = time.Minute // as for the bodies of guarded requests
	}
	return &o
}
