package config

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/gateway"
)

// corsOptions is [gateway.CORS] in the file.
type corsOptions struct {
	Origins     nameList `yaml:"origins" default:"required" doc:"pages that may read: https://shop.example, a list of such, or * for all"`
	Credentials bool     `yaml:"credentials" default:"false" doc:"they may send cookies and Authorization; not with *"`
	Headers     nameList `yaml:"headers" default:"none" doc:"headers that they may send besides those of keys, Accept, Content-Type and Authorization; * for any"`
	Expose      nameList `yaml:"expose" default:"none" doc:"headers that they may read besides Idempotency-Replayed, Idempotency-Stored, Retry-After, Location and Link"`
	MaxAge      duration `yaml:"max_age" default:"10m" doc:"how long a browser keeps the answer to a preflight"`
}

type corsOrNone orNone[gateway.CORS]

func (v *corsOrNone) UnmarshalYAML(n ast.Node) error {
	if v.isSet = true; isNone(n) {
		return nil
	}
	var c corsOptions
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	v.value = &gateway.CORS{Origins: c.Origins, Credentials: c.Credentials, Headers: c.Headers, Expose: c.Expose, MaxAge: c.MaxAge.d}
	if err := v.value.Validate(); err != nil {
		return errorAtNode(n, "%s", err)
	}
	return nil
}
