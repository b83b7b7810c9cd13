package config

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
)

// tenantLimits is [retrysafe.Limits] in the file. A route inherits what is left out.
type tenantLimits struct {
	Live    liveLimit  `yaml:"live" default:"none" doc:"keys of a tenant that may be within their retention, counted from when they began, or none for no limit"`
	PerS    rateLimit  `yaml:"new_per_s" default:"none" doc:"new keys of a tenant in a second on average, 0.0001 to 100000, or none for no limit; routes that say the same share one rate"`
	Burst   burstLimit `yaml:"burst" default:"new_per_s, rounded up" doc:"new keys of a tenant that may come at once, 1 to 100000"`
	Storage sizeLimit  `yaml:"bytes" default:"none" doc:"room for the kept answers of a tenant, for example 64MiB, or none for no limit; where it is full new keys are refused"`
}

// UnmarshalYAML accepts none, which means no limit at all, or the fields.
func (l *tenantLimits) UnmarshalYAML(decode func(any) error) error {
	var at nodePlace
	if err := decode(&at); err != nil || at.Node == nil {
		return err
	}
	switch at.Type() {
	case ast.MappingType, ast.MappingValueType:
		type fields tenantLimits // without this method
		return decode((*fields)(l))
	}
	if !isNone(at.Node) {
		return errorAtNode(at.Node, "write none, or limits such as {live: 10000, new_per_s: 50}")
	}
	*l = tenantLimits{Live: liveLimit{unlimited}, PerS: rateLimit{unlimited}, Storage: sizeLimit{unlimited}}
	return nil
}

// nodePlace is the node of a value.
type nodePlace struct{ ast.Node }

func (p *nodePlace) UnmarshalYAML(n ast.Node) error {
	p.Node = n
	return nil
}

func (l *tenantLimits) limits() retrysafe.Limits {
	return retrysafe.Limits{Live: l.Live.n, PerSecond: l.PerS.v, Burst: l.Burst.n, Bytes: l.Storage.n}
}

// unlimited stands for none.
const unlimited = -1

type liveLimit struct{ n int64 }

func (v *liveLimit) UnmarshalYAML(n ast.Node) (err error) {
	if isNone(n) {
		v.n = unlimited
		return nil
	}
	v.n, err = parseNumber(n, 1<<53, "a number of keys such as 10000, or none")
	return err
}

type burstLimit struct{ n int64 }

func (v *burstLimit) UnmarshalYAML(n ast.Node) (err error) {
	v.n, err = parseNumber(n, 100_000, "a number of keys, 1 to 100000")
	return err
}

func parseNumber(n ast.Node, most int64, want string) (int64, error) {
	text, err := scalarText(n, want)
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseInt(text, 10, 64)
	if err != nil || x <= 0 || x > most {
		return 0, errorAtNode(n, "%q: write %s", text, want)
	}
	return x, nil
}

type rateLimit struct{ v float64 }

func (v *rateLimit) UnmarshalYAML(n ast.Node) error {
	if isNone(n) {
		v.v = unlimited
		return nil
	}
	const want = "keys in a second, 0.0001 to 100000, or none"
	text, err := scalarText(n, want)
	if err != nil {
		return err
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0.0001 && x <= 100_000) { // also NaN
		return errorAtNode(n, "%q is no rate; write %s", text, want)
	}
	v.v = x
	return nil
}

type sizeLimit struct{ n int64 }

func (v *sizeLimit) UnmarshalYAML(n ast.Node) error {
	if isNone(n) {
		v.n = unlimited
		return nil
	}
	var s size
	if err := s.UnmarshalYAML(n); err != nil {
		return err
	}
	v.n = s.n
	return nil
}
