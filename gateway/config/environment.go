package config

import "strings"

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
	{"RETRYSAFE_SEAL_KEYS", func(c *Config, v string) { c.file.Seal.text = v }},
}

// FileStore returns the store that the file itself names, which may have a password; empty: none.
// It differs from Store if the environment overrides it.
func (c *Config) FileStore() string { return c.file.Store }
