package config

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpidem"
)

// contractOption is [httpidem.Contract] in the file.
type contractOption struct{ v httpidem.Contract }

func (v *contractOption) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = parseChoice(n, "custom ietf stripe acp", httpidem.ContractCustom, httpidem.ContractIETF, httpidem.ContractStripe, httpidem.ContractACP)
	return err
}
