package config

import (
	"fmt"

	"github.com/retrysafe/retrysafe/admin"
)

// operatorOptions configures what the address of admin serves besides /healthz, /readyz and
// /metrics; see package admin.
type operatorOptions struct {
	Console      onOff               `yaml:"console" default:"on" doc:"the console, and the API that it uses; off: neither"`
	Tokens       string              `yaml:"tokens" default:"none" doc:"file with the callers' tokens, as retrysafe console token makes them, a relative path from the directory of this configuration; read again on SIGHUP; without tokens and trusted_proxy, callers on this machine may view and no one may do more; with either, these need a token too"`
	Audit        retention           `yaml:"audit" default:"400d" doc:"how long entries of the audit log are kept, or forever"`
	TrustedProxy trustedProxyOptions `yaml:"trusted_proxy" default:"none" doc:"a proxy before the console that authenticates people"`
	Namespaces   []string            `yaml:"namespaces" default:"none" doc:"other namespaces of the store that callers reach too, with the same roles; without any, the one of this gateway alone"`
}

// trustedProxyOptions are [admin.TrustedProxy] in the file.
type trustedProxyOptions struct {
	Addresses prefixList        `yaml:"addresses" default:"required" doc:"addresses of the server, whose fields are believed"`
	User      string            `yaml:"user" default:"required" doc:"field with the name of a person, for example X-Forwarded-User"`
	Groups    string            `yaml:"groups" default:"required" doc:"field with names of groups, with commas, for example X-Forwarded-Groups"`
	Roles     map[string]string `yaml:"roles" default:"required" doc:"what each group may do: view, reveal and resolve, with commas"`
}

// adminOptions returns the options of the console. It reads the file of the tokens.
func (op *operatorOptions) adminOptions() (o *admin.Options, err error) {
	o = &admin.Options{Console: true, Namespaces: op.Namespaces}
	if op.Tokens != "" {
		if o.Tokens, err = admin.ReadTokens(op.Tokens); err != nil {
			return o, fmt.Errorf("configuration: operators: tokens: %w", err)
		}
	}
	f := &op.TrustedProxy
	if f.Addresses == nil && f.User == "" && f.Groups == "" && f.Roles == nil {
		return o, nil
	}
	o.TrustedProxy = &admin.TrustedProxy{Addresses: f.Addresses, UserHeader: f.User, RolesHeader: f.Groups, Roles: map[string]admin.Roles{}}
	for group, names := range f.Roles {
		if o.TrustedProxy.Roles[group], err = admin.ParseRoles(names); err != nil {
			return o, fmt.Errorf("configuration: operators: trusted_proxy: roles: %w", err)
		}
	}
	if err := o.TrustedProxy.Validate(); err != nil {
		return o, fmt.Errorf("configuration: operators: trusted_proxy: %w", err)
	}
	return o, nil
}
