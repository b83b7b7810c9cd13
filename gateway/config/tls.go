package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsOptions names the files of a certificate and its key, in PEM.
type tlsOptions struct {
	Cert     string `yaml:"cert" default:"required" doc:"file with the certificate and those between it and a root"`
	Key      string `yaml:"key" default:"required" doc:"file with its private key"`
	ClientCA string `yaml:"client_ca" default:"none" doc:"file with the authorities of clients' certificates; then every client has to show one; read again on SIGHUP"`
}

// readCertificate reads the certificate. It returns nil if there is none.
func (c *tlsOptions) readCertificate() (*tls.Certificate, error) {
	if *c == (tlsOptions{}) {
		return nil, nil //nolint:nilnil // not configured
	}
	if c.Cert == "" || c.Key == "" {
		return nil, errors.New("configuration: tls needs both: cert and key")
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("configuration: tls: %w", err)
	}
	return &cert, nil
}

// readClientCAs reads the authorities for client certificates. It returns nil if clients need none.
func (c *tlsOptions) readClientCAs() (*x509.CertPool, error) {
	if c.ClientCA == "" {
		return nil, nil //nolint:nilnil // not configured
	}
	text, err := os.ReadFile(c.ClientCA)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no certificate in PEM", c.ClientCA)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: tls: client_ca: %w", err)
	}
	return pool, nil
}
