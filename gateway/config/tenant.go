package config

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpidem"
)

// credentialOptions is [httpidem.Credentials] in the file.
type credentialOptions struct {
	Cookie       string   `yaml:"cookie" default:"none" doc:"a cookie that names callers; only with stable: true"`
	Stable       bool     `yaml:"stable" default:"false" doc:"that the value of the cookie stays the same while its user is logged in; a session that is kept in the cookie (Rails, Flask) does not, and belongs in binding"`
	HeaderSecret string   `yaml:"header_secret" default:"none" doc:"a header with a secret that names callers, such as X-Api-Key"`
	Certificate  bool     `yaml:"certificate" default:"false" doc:"the subject of the client's certificate names callers; needs client_ca of tls"`
	Binding      []string `yaml:"binding" default:"all cookies" doc:"what tells callers without a credential apart: cookie:NAME or header:NAME; a duplicate with another one gets 409"`
}

type tenantOption struct {
	credential, global bool
	header             string
	jwt                *jwtOptions
	credentials        *httpidem.Credentials // what requests carry, other than the default
}

func (v *tenantOption) UnmarshalYAML(ctx context.Context, n ast.Node) (err error) {
	if _, ok := n.(*ast.MappingNode); ok {
		return v.unmarshalMapping(ctx, n)
	}
	text, _ := scalarText(n, "")
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		if v.header = http.CanonicalHeaderKey(name); name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errorAtNode(n, "%q names no header; write it like header:X-User", text)
		}
		return nil
	}
	*v, err = parseChoice(n, "credential global header:NAME {cookie:...} {jwt:...}", tenantOption{credential: true}, tenantOption{global: true}, tenantOption{}, tenantOption{})
	return err
}

// sameCallers reports whether both name callers in the same way; the default is the credential.
func (v tenantOption) sameCallers(o tenantOption) bool {
	return v.global == o.global && v.header == o.header && v.jwt.sameCallers(o.jwt) && reflect.DeepEqual(v.credentials, o.credentials)
}

// unmarshalMapping parses a tenant that is verified, or that is made of what requests carry.
func (v *tenantOption) unmarshalMapping(ctx context.Context, n ast.Node) error {
	var c struct {
		JWT        *jwtOptions       `yaml:"jwt"`
		Credential credentialOptions `yaml:",inline"`
	}
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	if c.JWT != nil {
		if !reflect.DeepEqual(c.Credential, credentialOptions{}) {
			return errorAtNode(n, "jwt names callers by itself; leave the others out")
		}
		v.jwt = c.JWT
		if !strings.Contains(v.jwt.JWKS, "://") {
			v.jwt.JWKS = resolveInContext(ctx, v.jwt.JWKS)
		}
		if _, err := v.jwt.callerFunc(); err != nil {
			return errorAtNode(n, "%s", err)
		}
		return nil
	}
	by := &c.Credential
	if by.Cookie == "" && !by.Stable && by.HeaderSecret == "" && !by.Certificate && len(by.Binding) == 0 {
		return errorAtNode(n, "write {jwt: {jwks: FILE or https://ADDRESS, issuer: NAME}}, {cookie: NAME, stable: true}, {header_secret: X-Api-Key}, "+
			"{certificate: true} or {binding: [\"cookie:NAME\"]}")
	}
	if (by.Cookie != "") != by.Stable {
		return errorAtNode(n, "a cookie names callers only if it stays the same while they are logged in: write {cookie: NAME, stable: true}; "+
			"of one that changes (a session that is kept in the cookie) write {binding: [\"cookie:NAME\"]}")
	}
	v.credentials = &httpidem.Credentials{Cookie: by.Cookie, HeaderSecret: by.HeaderSecret, Certificate: by.Certificate, Binding: by.Binding}
	if err := v.credentials.Validate(); err != nil {
		said := strings.ReplaceAll(err.Error(), "httpidem: Credentials.", "")
		for goName, name := range map[string]string{"HeaderSecret": "header_secret", "Cookie is": "cookie is", "named by Cookie": "named by cookie", "Binding": "binding"} {
			said = strings.ReplaceAll(said, goName, name)
		}
		return errorAtNode(n, "%s", said)
	}
	return nil
}
