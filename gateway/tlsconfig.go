package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSConfig names the files of a certificate and its key, in PEM.
type TLSConfig struct {
	Cert string `yaml:"cert" default:"required" doc:"file with the certificate and those between it and a root"`
	Key  string `yaml:"key" default:"required" doc:"file with its private key"`
	// ClientCA is read when the process starts.
	ClientCA string `yaml:"client_ca" default:"none" doc:"file with the authorities of clients' certificates; then every client has to show one"`
}

// Certificate reads the certificate of tls. It returns nil if there is none.
func (c *Config) Certificate() (*tls.Certificate, error) {
	if c.TLS == (TLSConfig{}) {
		return nil, nil //nolint:nilnil // not configured
	}
	if c.TLS.Cert == "" || c.TLS.Key == "" {
		return nil, errors.New("configuration: tls needs both: cert and key")
	}
	cert, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, fmt.Errorf("configuration: tls: %w", err)
	}
	return &cert, nil
}

// ClientCAs reads the authorities for client certificates. It returns nil if clients need no
// certificate.
func (c *Config) ClientCAs() (*x509.CertPool, error) {
	if c.TLS.ClientCA == "" {
		return nil, nil //nolint:nilnil // not configured
	}
	text, err := os.ReadFile(c.TLS.ClientCA)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no certificate in PEM", c.TLS.ClientCA)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: tls: client_ca: %w", err)
	}
	return pool, nil
}
