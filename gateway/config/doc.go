// Package config reads the configuration file of the gateway, in YAML. [Load] reads a file and
// [Parse] a text; [Config.Options] returns the options of a [gateway.Gateway]. An [Error] says at
// which line and column a mistake is, and what would be right.
//
// docs/gateway.md has all options; [Reference] returns its tables. A program that fills in
// [gateway.Options] by itself does not need this package.
package config
