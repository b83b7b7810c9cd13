package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestDeployedCommands: this program accepts the commands of the unit and of the image, with the
// example configuration.
func TestDeployedCommands(t *testing.T) {
	t.Parallel()
	const installed, ours = "/etc/retrysafe/gateway.yaml", "../../deploy/gateway.yaml"
	var calls [][]string
	unit, err := os.ReadFile("../../deploy/retrysafe.service")
	assert.NoError(t, err, "unit")
	for _, m := range regexp.MustCompile(`(?m)^Exec\w+=-?/usr/local/bin/retrysafe (.*)$`).FindAllStringSubmatch(string(unit), -1) {
		calls = append(calls, strings.Fields(m[1]))
	}
	assert.Equal(t, len(calls), 3, "calls of the unit")
	docker, err := os.ReadFile("../../deploy/Dockerfile")
	assert.NoError(t, err, "Dockerfile")
	for _, m := range regexp.MustCompile(`(?m)CMD (\[.*\])$`).FindAllStringSubmatch(string(docker), -1) {
		var call []string
		assert.NoError(t, json.Unmarshal([]byte(m[1]), &call), "call %s", m[1])
		if call[0] == "/retrysafe" { // the health check; the other one follows the entry point
			call = call[1:]
		}
		calls = append(calls, call)
	}
	assert.Equal(t, len(calls), 5, "calls of both")
	for _, call := range calls {
		for i := range call {
			call[i] = strings.ReplaceAll(call[i], installed, ours)
		}
		out, err := newCommand(t, append(call, "--check-config")...).CombinedOutput()
		assert.NoError(t, err, "%v: %s", call, out)
		assert.Contains(t, string(out), "the configuration is good: 1 route\n", "%v", call)
	}
}
