package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// Parse parses the text of a configuration file and applies the environment on top of it; getenv
// may be nil for no environment. Its error has an [*Error] for each mistake, at most ten in the
// order of the file. [Config.Options] checks what depends on several options.
func Parse(file []byte, getenv func(string) string) (*Config, error) {
	return parseFile("configuration", "", file, getenv)
}

// parseFile parses a file of a directory, which relative paths of other files count from.
func parseFile(name, dir string, text []byte, getenv func(string) string) (*Config, error) {
	c := &Config{name: name, source: text}
	in := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	err := in.DecodeContext(contextWithDir(dir), &c.file)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file is valid
		return nil, findMistakes(name, dir, text, errorFromMessage(name, yaml.FormatError(err, false, false), err))
	}
	if err == nil && !errors.Is(in.Decode(new(any)), io.EOF) {
		return nil, &Error{File: name, Message: "the file has more than one document; write one, without ---"}
	}
	c.resolvePaths(dir)
	f := &c.file
	c.Listen, c.Admin, c.Upstream, c.Store, c.Namespace, c.AccessLog = f.Listen, f.Admin, f.Upstream, f.Store, f.Namespace, f.AccessLog
	if getenv != nil {
		for _, v := range environment {
			if value := getenv(v.name); value != "" {
				v.set(c, value)
			}
		}
	}
	inheritField(&c.AccessLog, "off")
	inheritField(&c.Listen, "127.0.0.1:8080")
	inheritField(&c.Store, "sqlite:retrysafe.db")
	return c, nil
}

// Load reads and parses the file at path. Relative paths of the files that it names for reading
// count from its directory; with Parse they count from the working directory. Load applies the
// environment of this process. Mistakes in the file are each an [*Error] that names path, as in
// Parse; other errors are those of reading it.
func Load(path string) (*Config, error) {
	file, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return parseFile(path, dir, file, os.Getenv)
}

// resolvePaths sets the paths of files that are read after the whole configuration is decoded.
func (c *Config) resolvePaths(dir string) {
	for _, path := range []*string{&c.file.CA, &c.file.TLS.Cert, &c.file.TLS.Key, &c.file.TLS.ClientCA, &c.file.Operators.Tokens, &c.file.Seal.Keys.path} {
		*path = resolvePath(dir, *path)
	}
}
