package gateway_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func writePEM(t *testing.T, path string, c *x509.Certificate) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	assert.NoError(t, os.WriteFile(path, text, 0o600), "certificate")
}
