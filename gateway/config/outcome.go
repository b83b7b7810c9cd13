package config

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpidem"
)

// outcomeOptions are [httpidem.BodyOutcome] in the file.
type outcomeOptions struct {
	Field  string    `yaml:"field" default:"required" doc:"a member of the answer: /code, or $.result.code"`
	Done   valueList `yaml:"done" default:"required" doc:"its values where the work was done, such as [0, 200] or true; any other answer is a refusal, which is kept and replayed, also where on_duplicate is a fixed answer"`
	NotRun valueList `yaml:"not_run" default:"none" doc:"its values where the service certainly did nothing: a retry with the same key runs"`
}

type outcomeOrNone orNone[httpidem.BodyOutcome]

func (v *outcomeOrNone) UnmarshalYAML(n ast.Node) error {
	if v.isSet = true; isNone(n) {
		return nil
	}
	var o outcomeOptions
	if err := yaml.NodeToValue(n, &o, yaml.Strict()); err != nil {
		return err
	}
	v.value = &httpidem.BodyOutcome{Field: o.Field, Done: o.Done, NotRun: o.NotRun}
	if err := v.value.Validate(); err != nil {
		return errorAtNode(n, "%s", translateNames(err.Error()))
	}
	return nil
}

// valueList is one value or several: texts, numbers, true and false.
type valueList []string

func (v *valueList) UnmarshalYAML(n ast.Node) (err error) {
	*v, err = parseList(n, "a value such as 0 or done")
	return err
}
