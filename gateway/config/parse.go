package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// environment has the variables that override the file, and what they set. A secret can only be set
// here.
var environment = []struct {
	name string
	set  func(*Config, string)
}{
	{"RETRYSAFE_LISTEN", func(c *Config, v string) { c.Listen = v }},
	{"RETRYSAFE_ADMIN", func(c *Config, v string) { c.Admin = v }},
	{"RETRYSAFE_UPSTREAM", func(c *Config, v string) { c.Upstream = strings.Split(v, ",") }},
	{"RETRYSAFE_STORE", func(c *Config, v string) { c.Store = v }},
}

// Parse parses the text of a configuration file and applies the environment on top of it; getenv
// may be nil for no environment. Its errors are of the type [*Error]. [Config.Options] checks what
// depends on several options.
func Parse(file []byte, getenv func(string) string) (*Config, error) {
	c := &Config{name: "configuration", source: file}
	in := yaml.NewDecoder(bytes.NewReader(file), yaml.Strict())
	err := in.Decode(c)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file is valid
		return nil, placed("configuration", yaml.FormatError(err, false, false), err)
	}
	if err == nil && !errors.Is(in.Decode(new(any)), io.EOF) {
		return nil, &Error{File: "configuration", Message: "the file has more than one document; write one, without ---"}
	}
	if getenv != nil {
		for _, v := range environment {
			if value := getenv(v.name); value != "" {
				v.set(c, value)
			}
		}
	}
	inherit(&c.AccessLog, "off")
	inherit(&c.Listen, "127.0.0.1:8080")
	inherit(&c.Store, "sqlite:retrysafe.db")
	return c, nil
}

// Load reads and parses the file at path, and applies the environment of this process. A mistake in
// the file is an [*Error] that names path; other errors are those of reading it.
func Load(path string) (*Config, error) {
	file, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(file, os.Getenv)
	var wrong *Error
	if errors.As(err, &wrong) {
		wrong.File = path
	}
	if err != nil {
		return nil, err
	}
	c.name = path
	return c, nil
}
