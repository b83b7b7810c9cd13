package config

import (
	"reflect"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// keyRule is [fingerprint.Rule] in the file: which parts of a request count if its key is
// derived from it.
type keyRule struct {
	Ignore    []string     `yaml:"ignore" default:"none" doc:"fields that may differ between a request and its repeat: by name (timestamp) or by path ($.meta.at, $.items[*].at)"`
	Only      []string     `yaml:"only" default:"all" doc:"of params: the fields that count"`
	Times     *bool        `yaml:"ignore_times" default:"true" doc:"leave out fields whose names say that they have the time of sending: timestamp, ts, _t, sent_at and the like"`
	Positions bool         `yaml:"ignore_positions" default:"false" doc:"leave out the position of the device: lat, latitude, lng, lon, longitude, accuracy, altitude; not where the place is what is asked for"`
	Numbers   bool         `yaml:"numbers_as_written" default:"false" doc:"tell 10 from 10.0 in JSON"`
	Missing   missingField `yaml:"missing" default:"refuse" doc:"of fields: what a request gets that lacks one of them: refuse (400), or pass (to the service, without a guard; with any_payload alone): for tests and handshakes of a third party, which have no id"`
	Any       bool         `yaml:"any_payload" default:"false" doc:"of fields: a duplicate may differ in everything else and gets the first answer, not 422: for the events of a third party by their id"`
}

func (c *keyRule) fingerprintRule() fingerprint.Rule {
	r := fingerprint.Rule{Ignore: slices.Clone(c.Ignore), Only: c.Only, NumbersAsWritten: c.Numbers}
	if c.Times == nil || *c.Times {
		r.Ignore = append(r.Ignore, fingerprint.TimeFields()...)
	}
	if c.Positions {
		r.Ignore = append(r.Ignore, fingerprint.PositionFields()...)
	}
	if len(r.Only) > 0 { // a name in Only is kept even if it is on one of these lists
		r.Ignore = slices.DeleteFunc(r.Ignore, func(name string) bool { return slices.Contains(r.Only, name) && !slices.Contains(c.Ignore, name) })
	}
	return r
}

// keyMode is where keys come from; made is set if the gateway derives them.
type keyMode struct {
	v       httpidem.KeyMode
	derived *derivedKey
}

type derivedKey struct {
	fields  []string
	any     bool
	missing httpidem.Missing
	rule    fingerprint.Rule
}

func (v *keyMode) UnmarshalYAML(n ast.Node) (err error) {
	if _, ok := n.(*ast.MappingNode); ok {
		return v.unmarshalMapping(n)
	}
	v.v, err = parseChoice(n, "required optional token params off {params:...} {fields:...}", httpidem.Required, httpidem.Optional, httpidem.Token, httpidem.Params, httpidem.Off, 0, 0)
	if v.v == httpidem.Params {
		v.derived = &derivedKey{rule: new(keyRule).fingerprintRule()}
	}
	return err
}

// unmarshalMapping parses {params: {ignore: […]}} and {fields: […], ignore: […]}.
func (v *keyMode) unmarshalMapping(n ast.Node) error {
	var c struct {
		Params *keyRule `yaml:"params"`
		Fields []string `yaml:"fields"`
		Rule   keyRule  `yaml:",inline"`
	}
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	switch {
	case c.Params != nil && (c.Params.Any || c.Params.Missing.v != 0 || !reflect.ValueOf(c.Rule).IsZero()):
		return errorAtNode(n, "write what params leaves out inside of it, as in {params: {ignore: [note]}}; any_payload and missing go with fields only")
	case (c.Params != nil) == (len(c.Fields) > 0):
		return errorAtNode(n, "write what the key is made of, {params: {ignore: [note]}} or {fields: [poll]}; or write required, optional, token, params or off")
	case c.Params != nil:
		v.v, v.derived = httpidem.Params, &derivedKey{rule: c.Params.fingerprintRule()}
	default:
		v.v, v.derived = httpidem.Fields, &derivedKey{fields: c.Fields, any: c.Rule.Any, missing: c.Rule.Missing.v, rule: c.Rule.fingerprintRule()}
	}
	return nil
}

// configureGuard sets the options of a guard that say where its keys come from.
func (v *keyMode) configureGuard(o *httpidem.Options) {
	o.Key = v.v
	if v.derived == nil {
		return
	}
	o.Request.Fields, o.Request.Rule, o.Request.AnyPayload, o.Request.Missing = v.derived.fields, v.derived.rule, v.derived.any, v.derived.missing
}

// missingField is what a request gets that lacks a field of its key.
type missingField struct{ v httpidem.Missing }

func (v *missingField) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = parseChoice(n, "refuse pass", httpidem.MissingRefuse, httpidem.MissingPass)
	return err
}

// maxAgeOptions is [httpidem.Age] in the file.
type maxAgeOptions struct {
	Field string   `yaml:"field" default:"required" doc:"where a request says when it was made: header:Date; where the key is made of the request also query:ts, timestamp or $.meta.sentAt; RFC 3339, a date of HTTP, or seconds, ms, µs or ns since 1970"`
	Max   duration `yaml:"max" default:"required" doc:"how old it may be, and how far ahead: 5s or more"`
}

func (a *maxAgeOptions) ageOption() *httpidem.Age {
	if *a == (maxAgeOptions{}) {
		return nil
	}
	return &httpidem.Age{Field: a.Field, Max: a.Max.d, Now: time.Now}
}
