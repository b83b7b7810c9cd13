package config

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe/gateway"
)

// Warning is something in a file of the configuration that is wrong, or soon will be, and with
// which a gateway still starts.
type Warning struct {
	Text string
	// Expired: a certificate has expired, so connections fail already.
	Expired bool
}

// expirySoon is how long before a certificate expires that is a warning.
const expirySoon = 14 * 24 * time.Hour

// Warnings looks at the files that the configuration names, as they are now: certificates that have
// expired or will within 14 days, and files with secrets that everybody on the machine may read.
func (c *Config) Warnings(now time.Time) (all []Warning) {
	for _, named := range c.certificateNames() {
		cert, err := gateway.ReadCertificateFile(named.use, named.path)
		if err != nil {
			continue // it is an error elsewhere
		}
		fails := cert.LastExpires // of authorities one is enough
		if named.use == "server" {
			fails = cert.Expires // a chain needs each of its certificates
		}
		day := cert.Expires.UTC().Format("2006-01-02 15:04 MST")
		switch left := cert.Expires.Sub(now); {
		case left <= 0:
			all = append(all, Warning{fmt.Sprintf("%s: %s has a certificate that expired at %s; replace the file", named.option, named.path, day), !fails.After(now)})
		case left < expirySoon:
			all = append(all, Warning{fmt.Sprintf("%s: %s has a certificate that expires at %s; replace the file before", named.option, named.path, day), false})
		}
	}
	for option, file := range map[string]string{"tls.key": c.file.TLS.Key, "seal.keys": c.file.Seal.Keys.path, "operators.tokens": c.file.Operators.Tokens} {
		if file == "" {
			continue
		}
		if mode := permissions(file); mode&0o004 != 0 {
			all = append(all, Warning{fmt.Sprintf("%s: everybody on this machine may read %s (mode %04o); run chmod o-r %s", option, file, mode, file), false})
		}
	}
	return all
}

// permissions returns who may use a file; none if it is not there, or on Windows, whose files have
// other rights.
func permissions(file string) os.FileMode {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode().Perm()
}
