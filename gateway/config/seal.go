package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// sealOptions encrypts what the store keeps of answers; see package sealstore.
type sealOptions struct {
	Keys       fileName `yaml:"keys" default:"required, or RETRYSAFE_SEAL_KEYS" doc:"file with the master keys in JSON, see [sealed.md](sealed.md); read again on SIGHUP. RETRYSAFE_SEAL_KEYS in the environment may have its text"`
	DataKeys   string   `yaml:"data_keys" default:"in the store" doc:"directory for the tenants' data keys, wrapped by a master key; all gateways of the store need the same one"`
	Cache      duration `yaml:"cache" default:"5m" doc:"how long an opened data key is used; a tenant that was forgotten is so everywhere after it"`
	OnlySealed *bool    `yaml:"only_sealed" default:"false" doc:"do not replay answers that were kept in the clear; for a store that is sealed for longer than the retention"`

	text string // of RETRYSAFE_SEAL_KEYS
}

// fileName is the path of a file, and where the configuration names it.
type fileName struct {
	path         string
	line, column int
}

func (v *fileName) UnmarshalYAML(n ast.Node) (err error) {
	at := n.GetToken().Position
	v.line, v.column = at.Line, at.Column
	v.path, err = scalarText(n, "the path of a file")
	return err
}

// isEnabled reports whether answers are sealed.
func (s *sealOptions) isEnabled() bool { return s.Keys.path != "" || s.text != "" }

// readRing reads the master keys. It returns nil if nothing is sealed. An error about a file of the
// configuration begins with its place.
func (s *sealOptions) readRing() (*sealstore.Ring, error) {
	switch {
	case s.text != "":
		r, err := sealstore.ParseRing([]byte(s.text))
		if err != nil {
			return nil, fmt.Errorf("RETRYSAFE_SEAL_KEYS: %w", err)
		}
		return r, nil
	case s.Keys.path != "":
		r, err := sealstore.ReadRing(s.Keys.path)
		if err != nil {
			return nil, fmt.Errorf("[%d:%d] %w", s.Keys.line, s.Keys.column, err)
		}
		return r, nil
	case *s != sealOptions{}:
		return nil, errors.New("configuration: seal has no keys; name the key file, as in seal: {keys: seal.json}, or set RETRYSAFE_SEAL_KEYS to its text")
	}
	return nil, nil //nolint:nilnil // nothing is sealed
}

// storeOptions returns the options of the sealed store. It creates the directory of data_keys.
func (s *sealOptions) storeOptions() (o *sealstore.Options, err error) {
	o = &sealstore.Options{CacheLife: s.Cache.d, OnlySealed: s.OnlySealed != nil && *s.OnlySealed}
	if s.DataKeys != "" {
		if o.Keys, err = sealstore.KeysDir(s.DataKeys); err != nil {
			return nil, fmt.Errorf("configuration: data_keys: %w", err)
		}
	}
	return o, nil
}

// sameSeal reports whether next differs at most in what the key file has.
func (s *sealOptions) sameSeal(next *sealOptions) bool {
	only := func(s *sealOptions) bool { return s.OnlySealed != nil && *s.OnlySealed }
	return s.isEnabled() == next.isEnabled() && s.DataKeys == next.DataKeys && s.Cache == next.Cache && only(s) == only(next)
}
