package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
)

// Certificates are the certificate of a server, and the authorities of its clients' certificates.
// Both can be replaced while the server runs. The zero value has none. It is safe for concurrent
// use.
type Certificates struct{ current atomic.Pointer[tls.Config] }

// Set replaces both for new connections; open connections stay. clients nil: clients need no
// certificate. cert nil: there is no TLS. A server that runs must keep a certificate.
func (c *Certificates) Set(cert *tls.Certificate, clients *x509.CertPool) {
	if cert == nil {
		c.current.Store(nil)
		return
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{*cert}}
	if clients != nil {
		next.ClientCAs, next.ClientAuth = clients, tls.RequireAndVerifyClientCert
		next.VerifyConnection = func(s tls.ConnectionState) error { return verifyResumedClient(&s, clients) }
	}
	c.current.Store(next)
}

// Config returns the configuration for [Server.ServeTLS], or nil if there is no certificate. It
// follows later calls of Set.
func (c *Certificates) Config() *tls.Config {
	if c.current.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
		// ServeTLS checks that there is a certificate.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.current.Load().Certificates[0], nil },
	}
}

// verifyResumedClient verifies the client's certificate of a session that is resumed: crypto/tls
// has verified it when the session began, possibly by authorities that have been taken out since.
func verifyResumedClient(s *tls.ConnectionState, clients *x509.CertPool) error {
	if !s.DidResume {
		return nil
	}
	if len(s.PeerCertificates) == 0 {
		return errors.New("gateway: the session has no client certificate")
	}
	between := x509.NewCertPool()
	for _, one := range s.PeerCertificates[1:] {
		between.AddCert(one)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: clients, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
