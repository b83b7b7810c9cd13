package gateway

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CertificateFile is a file with certificates that a gateway uses.
type CertificateFile struct {
	// Use says what for, in one word: server, client_ca or upstream_ca, for example.
	Use string
	// File is its path.
	File string
	// Expires is when the first of its certificates expires.
	Expires time.Time
	// LastExpires is when the last of them expires.
	LastExpires time.Time
}

// ReadCertificateFile reads the certificates of a file in PEM.
func ReadCertificateFile(use, path string) (CertificateFile, error) {
	f := CertificateFile{Use: use, File: path}
	text, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("gateway: certificates of %s: %w", use, err)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		// What crypto/x509 cannot read is in no pool, and so it is not used.
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if f.Expires.IsZero() || cert.NotAfter.Before(f.Expires) {
			f.Expires = cert.NotAfter
		}
		if cert.NotAfter.After(f.LastExpires) {
			f.LastExpires = cert.NotAfter
		}
	}
	if f.Expires.IsZero() {
		return f, fmt.Errorf("gateway: certificates of %s: %s has no certificate in PEM", use, path)
	}
	return f, nil
}

func newExpiryGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "retrysafe_certificate_expires_timestamp_seconds", Help: "When the first certificate of a file expires, in seconds since 1970, by use and file.",
	}, []string{"use", "file"})
}

// SetCertificateFiles shows when the certificates of files expire. Call it again when the files
// were read again: those that are not named any more are shown no longer.
func (m *Monitor) SetCertificateFiles(files []CertificateFile) {
	if m == nil {
		return
	}
	m.expiry.Reset()
	for _, f := range files {
		m.expiry.WithLabelValues(f.Use, f.File).Set(float64(f.Expires.Unix()))
	}
}
