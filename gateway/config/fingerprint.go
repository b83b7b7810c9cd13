package config

import (
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// equalityOption says when a request with a known key is a duplicate.
type equalityOption struct {
	v    httpidem.Fingerprint
	rule *fingerprint.Rule // nil: all members count
}

// countedMembers are the members of a JSON body that count, in the file.
type countedMembers struct {
	Fields  []string `yaml:"fields"`
	Ignore  []string `yaml:"ignore"`
	Numbers bool     `yaml:"numbers_as_written"`
}

func (v *equalityOption) UnmarshalYAML(n ast.Node) (err error) {
	if _, ok := n.(*ast.MappingNode); !ok {
		v.v, err = parseChoice(n, "bytes json {fields:...} {ignore:...}", httpidem.FingerprintBytes, httpidem.FingerprintJSON, 0, 0)
		return err
	}
	var c countedMembers
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	if reflect.ValueOf(c).IsZero() {
		return errorAtNode(n, "write which members of a JSON body count, {fields: [$.order]}, or do not, {ignore: [$.sentAt]}; without either json or bytes")
	}
	v.v, v.rule = httpidem.FingerprintJSON, &fingerprint.Rule{Only: c.Fields, Ignore: c.Ignore, NumbersAsWritten: c.Numbers}
	_, err = v.rule.Compile()
	if err != nil {
		return errorAtNode(n, "%v", err)
	}
	return nil
}

// configureGuard sets the options of a guard for keys that clients send.
func (v *equalityOption) configureGuard(o *httpidem.Options) {
	o.Request.Fingerprint = v.v
	if v.rule != nil {
		o.Request.Rule = *v.rule
	}
}

// comparisons has how the first route of each operation compares requests. Fingerprints of
// different rules are not compared with each other, so routes that share keys must share the rule.
type comparisons map[string]comparison

type comparison struct{ route, rule string }

// findDifferent returns the first route of the operation if it compares in another way.
func (all comparisons) findDifferent(r *gateway.Route, operation string, key httpidem.KeyMode) string {
	if operation == "" || key == httpidem.Off {
		return ""
	}
	g := &r.Guard
	rule := fmt.Sprint(max(g.Request.Fingerprint, httpidem.FingerprintBytes), g.Request.Rule)
	first, ok := all[operation]
	if !ok {
		all[operation] = comparison{r.Match, rule}
		return ""
	}
	if first.rule == rule {
		return ""
	}
	return first.route
}
