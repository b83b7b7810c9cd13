package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/retrysafe/retrysafe/httpidem"
)

const (
	setting         = "OTEL_EXPORTER_OTLP_"
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
	maxTimeout      = 3_600_000 // ms
)

// settings say where and how one signal, TRACES or METRICS, is sent. They are read from the
// environment as the OpenTelemetry Protocol Exporter specification says: the variable of the signal
// before the one of both.
type settings struct {
	url     string
	header  http.Header
	timeout time.Duration // for one export with all its tries
	gzip    bool
	tls     *tls.Config // nil: the defaults
}

// signalSetting returns a setting of a signal, without white space around it, and the name of the
// variable that has it.
func signalSetting(signal, name string) (value, from string) {
	if v := trimmedEnv(setting + signal + "_" + name); v != "" {
		return v, setting + signal + "_" + name
	}
	return trimmedEnv(setting + name), setting + name
}

func trimmedEnv(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// isExported reports whether the environment asks for the export of a signal. By default a gateway
// exports a signal if there is an address for it: without one, it would try this machine for ever.
func isExported(signal string) (bool, error) {
	name := "OTEL_" + signal + "_EXPORTER"
	exporter := trimmedEnv(name)
	if address, _ := signalSetting(signal, "ENDPOINT"); exporter == "" && address != "" {
		exporter = "otlp"
	}
	switch strings.ToLower(exporter) {
	case "", "none":
		return false, nil
	case "otlp":
	case "prometheus":
		return false, fmt.Errorf("%s: the gateway has metrics for Prometheus at /metrics of its operators' address; use otlp or none", name)
	default:
		return false, fmt.Errorf("%s: %q is unknown; use otlp or none", name, exporter)
	}
	if v := trimmedEnv(setting + "METRICS_DEFAULT_HISTOGRAM_AGGREGATION"); v != "" && v != "explicit_bucket_histogram" {
		return false, fmt.Errorf("%sMETRICS_DEFAULT_HISTOGRAM_AGGREGATION: %q is not supported; use explicit_bucket_histogram", setting, v)
	}
	switch protocol, from := signalSetting(signal, "PROTOCOL"); protocol {
	case "", "http/protobuf":
		return true, nil
	case "grpc":
		return false, fmt.Errorf("%s: grpc is not supported; use http/protobuf, which collectors take on port 4318", from)
	default:
		return false, fmt.Errorf("%s: %q is not supported; use http/protobuf", from, protocol)
	}
}

// settingsOf reads the settings of a signal. Its errors do not quote headers, which have secrets.
func settingsOf(signal string) (s settings, err error) {
	if s.url, err = endpointURL(signal); err != nil {
		return s, err
	}
	if s.header, err = parseHeaders(signal); err != nil {
		return s, err
	}
	s.timeout = defaultTimeout
	if v, from := signalSetting(signal, "TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 || ms > maxTimeout {
			return s, fmt.Errorf("%s: %q is no number of milliseconds from 1 to %d", from, v, maxTimeout)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch v, from := signalSetting(signal, "COMPRESSION"); v {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("%s: %q is unknown; use gzip or none", from, v)
	}
	s.tls, err = tlsConfig(signal)
	return s, err
}

// endpointURL returns the URL that a signal is sent to. The address of both signals gets the path
// of the signal; that of one signal is used as it is.
func endpointURL(signal string) (string, error) {
	text, from := signalSetting(signal, "ENDPOINT")
	u, err := url.Parse(cmp.Or(text, defaultEndpoint))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// it may have a password
		return "", fmt.Errorf("%s is no URL with http:// or https:// and a host", from)
	}
	if from == setting+"ENDPOINT" {
		u = u.JoinPath("v1", strings.ToLower(signal))
	}
	return u.String(), nil
}

// parseHeaders reads pairs as in key=value,key=value, with percent-encoded values.
func parseHeaders(signal string) (http.Header, error) {
	h := make(http.Header)
	list, from := signalSetting(signal, "HEADERS")
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		// net/http would quote a wrong one in its error, and with it the secret after a wrong colon
		if !ok || err != nil || !httpidem.IsToken(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, fmt.Errorf("%s: write it like name=value,name=value, with special characters as %%20", from)
		}
		h.Set(name, value)
	}
	return h, nil
}

// tlsConfig returns the authorities that the collector's certificate may be from, and the
// certificate of this client; nil if the environment has neither.
func tlsConfig(signal string) (*tls.Config, error) {
	authorities, from := signalSetting(signal, "CERTIFICATE")
	certificate, _ := signalSetting(signal, "CLIENT_CERTIFICATE")
	key, _ := signalSetting(signal, "CLIENT_KEY")
	if authorities == "" && certificate == "" && key == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pem, err := os.ReadFile(authorities) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: the file has no certificate in the PEM format", from)
		}
	}
	if certificate == "" && key == "" {
		return c, nil
	}
	if certificate == "" || key == "" {
		return nil, errors.New(setting + "CLIENT_CERTIFICATE and " + setting + "CLIENT_KEY belong together; set both or none")
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%sCLIENT_CERTIFICATE: %w", setting, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
