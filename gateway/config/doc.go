// Package config reads the configuration file of the gateway, in YAML. [Load] parses it,
// [Config.Options] makes the options of a [gateway.Gateway] of it. An error says at which line and
// column the mistake is, and what would be right.
package config
