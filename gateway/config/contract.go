package config

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpidem"
)

// contract is [httpidem.Contract] in the file.
type contract struct{ v httpidem.Contract }

func (v *contract) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = choose(n, "custom ietf stripe acp", httpidem.ContractCustom, httpidem.ContractIETF, httpidem.ContractStripe, httpidem.ContractACP)
	return err
}
