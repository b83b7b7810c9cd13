package config

import (
	"net/netip"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// nameList is one text or several.
type nameList []string

func (v *nameList) UnmarshalYAML(n ast.Node) (err error) {
	*v, err = parseList(n, "a name")
	return err
}

// orNone is a value that a route can set to none, so that it does not inherit one.
type orNone[T any] struct {
	value *T
	isSet bool // set, possibly to none
}

type headerList []string

func (v *headerList) UnmarshalYAML(n ast.Node) (err error) {
	*v, err = parseList(n, "the name of a header")
	return err
}

type addressList []string

func (v *addressList) UnmarshalYAML(n ast.Node) (err error) {
	*v, err = parseList(n, "an address such as http://127.0.0.1:9000")
	return err
}

// parseList parses one value, or several.
func parseList(n ast.Node, want string) ([]string, error) {
	several, ok := n.(*ast.SequenceNode)
	if !ok {
		one, err := scalarText(n, want+", or a list of them")
		return []string{one}, err
	}
	var all []string
	for _, one := range several.Values {
		text, err := scalarText(one, want)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// statusList is a status of HTTP, or several.
type statusList struct {
	all   []int
	isSet bool // set, possibly to none
}

func (v *statusList) UnmarshalYAML(n ast.Node) error {
	const want = "a status such as 409"
	v.isSet = true
	if isNone(n) {
		return nil
	}
	texts, err := parseList(n, want)
	if err != nil {
		return err
	}
	for _, text := range texts {
		status, err := strconv.Atoi(text)
		if err != nil || status < 100 || status > 599 {
			return errorAtNode(n, "%q is no status; write one such as 409, a list such as [409, 503], or none", text)
		}
		v.all = append(v.all, status)
	}
	return nil
}

type prefixList []netip.Prefix

func (v *prefixList) UnmarshalYAML(n ast.Node) error {
	const want = "an address such as 127.0.0.1 or 10.0.0.0/8"
	all, err := parseList(n, want)
	if err != nil {
		return err
	}
	for _, text := range all {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, wrongAddr := netip.ParseAddr(text)
			if wrongAddr != nil {
				return errorAtNode(n, "%q is no address; write %s", text, want)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		*v = append(*v, p.Masked())
	}
	return nil
}
