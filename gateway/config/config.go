package config

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/gateway"
)

// Config is a configuration that [Load] or [Parse] has read. A program whose flags take precedence
// over the file sets the fields before it calls a method. The methods change nothing, and can be
// called concurrently.
type Config struct {
	// Listen is the address to listen on.
	Listen string
	// Admin is the address for operators; empty: there is none.
	Admin string
	// Upstream has the addresses of the service.
	Upstream []string
	// Store is where records are kept, and Namespace names the service in it.
	Store, Namespace string
	// AccessLog is off, stdout or the path of a file.
	AccessLog string

	file   file
	name   string // of the file
	source []byte
}

// file is the configuration file. Every option except upstream is optional. The tables of
// docs/gateway.md are generated from the tags.
type file struct {
	Listen         string          `yaml:"listen" default:"127.0.0.1:8080" doc:"address to listen on"`
	Admin          string          `yaml:"admin" default:"none" doc:"address for operators: /healthz, /readyz, /metrics, and the console"`
	Operators      operatorOptions `yaml:"operators" default:"below" doc:"the console on the address of admin, and who may do what there"`
	TLS            tlsOptions      `yaml:"tls" default:"none" doc:"certificate of listen; read again on SIGHUP"`
	Upstream       addressList     `yaml:"upstream" default:"required" doc:"the service, for example http://127.0.0.1:9000, or a list of its addresses, which get requests in turn"`
	CA             string          `yaml:"upstream_ca" default:"those of the system" doc:"file with the authorities that may vouch for an https:// upstream, in PEM"`
	KeepHost       bool            `yaml:"keep_host" default:"false" doc:"send the Host of the client's request to the service, which otherwise gets the host of upstream, and the client's in X-Forwarded-Host"`
	Health         healthOptions   `yaml:"health" default:"none" doc:"how upstreams are asked whether they are well"`
	TrustedProxies prefixList      `yaml:"trusted_proxies" default:"none" doc:"addresses of the proxies before the gateway that may set a tenant's header, such as 10.0.0.0/8"`
	Store          string          `yaml:"store" default:"sqlite:retrysafe.db" doc:"where records are kept: memory, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST (rediss for TLS), postgres://HOST/DATABASE or mysql://HOST/DATABASE; one with a password belongs in RETRYSAFE_STORE"`
	Namespace      string          `yaml:"namespace" default:"app, and required where store is a server" doc:"names this service in the store; gateways of one service have the same, and another one is a new key space, in which retries run again"`
	Acks           acks            `yaml:"acks" default:"none" doc:"redis: how many replicas must have a win before it counts: none, all, or a number"`
	AllowEviction  bool            `yaml:"allow_eviction" default:"false" doc:"redis: take a server that may drop records for want of memory; each drop lets a key run again"`
	Copies         copies          `yaml:"copies" default:"16MiB" doc:"redis: memory for copies of answers that are asked for again, each used for 10s at most; or off"`
	Seal           sealOptions     `yaml:"seal" default:"none" doc:"encrypt what the store keeps of answers, with a key for each tenant"`
	AccessLog      string          `yaml:"access_log" default:"off" doc:"a line of JSON for each request: off, stdout, or a file, opened again on SIGHUP"`
	Limits         serverLimits    `yaml:"limits" default:"below" doc:"limits of the server"`
	Drain          duration        `yaml:"drain" default:"the longest timeout_answer and 5s" doc:"grace period for requests in flight at shutdown"`
	Delay          duration        `yaml:"drain_delay" default:"none" doc:"how long new requests are accepted after /readyz reports the shutdown"`
	Tokens         tokenOptions    `yaml:"tokens" default:"below" doc:"the one-time tokens of routes with key: token"`
	Upgrades       []string        `yaml:"upgrades" default:"websocket" doc:"further protocols that a connection may be switched to; what goes over it then is not looked at"`
	ServeRestored  bool            `yaml:"serve_restored" default:"false" doc:"true: new keys run also after the store went back to an older state (a backup was restored); false: they meet 503 until an operator accepts that"`
	KeyHeader      headerList      `yaml:"key_header" default:"Idempotency-Key" doc:"header of the key, or a list: of several the first that is present"`
	Defaults       settings        `yaml:"defaults" default:"below" doc:"settings of requests that no route matches, inherited by routes"`
	Routes         []routeOptions  `yaml:"routes" default:"none" doc:"what differs; the first that matches counts"`
}

// healthOptions are [gateway.Health] in the file.
type healthOptions struct {
	Path    string   `yaml:"path" default:"required" doc:"asked for with GET; 200 to 399 is good, two bad answers in a row take the upstream out"`
	Every   duration `yaml:"every" default:"5s" doc:"time between two questions"`
	Timeout duration `yaml:"timeout" default:"2s" doc:"how long an answer may take"`
}

// serverLimits are the limits of [gateway.ServerOptions] in the file, and more.
type serverLimits struct {
	Header     size          `yaml:"header" default:"64KiB" doc:"largest head of a request; a larger one meets 431"`
	HeaderTime duration      `yaml:"header_time" default:"10s" doc:"how long a head may take to arrive"`
	BodyTime   duration      `yaml:"body_time" default:"60s" doc:"how long the body of a guarded request may take to arrive; one that is not guarded has so long, and a second more for each KiB"`
	ClientTime duration      `yaml:"client_time" default:"60s" doc:"how long a client may take to read a guarded answer, or a part of another one"`
	QuietTime  duration      `yaml:"quiet_time" default:"5m" doc:"how long an exchange that is not guarded may go without a byte; streams may rest"`
	IdleTime   duration      `yaml:"idle_time" default:"2m" doc:"how long a connection is kept without a request"`
	Bodies     size          `yaml:"bodies" default:"64MiB, or a quarter of GOMEMLIMIT" doc:"memory for the bodies of guarded requests; beyond it the slowest gives way, or a request meets 503"`
	NewKeys    addressRate   `yaml:"new_by_address" default:"none" doc:"guarded requests of one address that may begin, {per_s: 5, burst: 50}; repeats do not count, more meets 429; for gateways that see their clients' addresses (trusted_proxies)"`
	Conns      positiveCount `yaml:"connections" default:"20000" doc:"connections at once; beyond it the longest idle ones are closed for a new one, or the new one is"`
	Streams    positiveCount `yaml:"streams" default:"250" doc:"requests that one connection of HTTP/2 may have at once"`
}

// tokenOptions configure one-time tokens; see token.Options.
type tokenOptions struct {
	Life        duration      `yaml:"life" default:"5m" doc:"how long after its issue a token may be used first, 1s to 720h; one that was used is answered for the retention"`
	Rate        positiveCount `yaml:"rate" default:"60" doc:"tokens that a tenant gets in any minute from one gateway; callers without a credential are counted by address"`
	Outstanding positiveCount `yaml:"outstanding" default:"1000" doc:"tokens of one tenant from one gateway that may be within their life, used or not"`
}

// DrainTime returns the value of drain: the grace period for requests in flight at shutdown. Zero
// means the default, which the caller computes from the options.
func (c *Config) DrainTime() time.Duration { return c.file.Drain.d }

// DrainDelay returns the value of drain_delay: how long new requests are accepted after /readyz
// reports the shutdown. Zero means no delay.
func (c *Config) DrainDelay() time.Duration { return c.file.Delay.d }

// ServerOptions returns the options of the server, for [gateway.NewServer], without a Logger.
// Options that are not set are zero, which means their defaults.
func (c *Config) ServerOptions() *gateway.ServerOptions {
	l := &c.file.Limits
	return &gateway.ServerOptions{Header: l.Header.n, HeaderTime: l.HeaderTime.d, IdleTime: l.IdleTime.d, Connections: int(l.Conns.n), Streams: int(l.Streams.n)}
}

// Acks returns the value of acks: how many replicas must have a win before it counts; -1: all.
func (c *Config) Acks() int { return c.file.Acks.n }

// AllowEviction returns the value of allow_eviction.
func (c *Config) AllowEviction() bool { return c.file.AllowEviction }

// Copies returns the value of copies: the memory for copies of answers, in bytes. Zero: there are
// none.
func (c *Config) Copies() int64 { return c.file.Copies.bytes() }

// HasCertificate reports whether the file names a certificate, so that the gateway serves TLS.
func (c *Config) HasCertificate() bool { return c.file.TLS.Cert != "" }

// Certificate reads the certificate of tls from its files, again at each call. It returns nil and
// no error if there is none.
func (c *Config) Certificate() (*tls.Certificate, error) { return c.file.TLS.readCertificate() }

// ClientCAs reads the authorities for client certificates from their file, again at each call. It
// returns nil and no error if clients need no certificate.
func (c *Config) ClientCAs() (*x509.CertPool, error) { return c.file.TLS.readClientCAs() }

// CertificateFiles reads when the certificates expire that the configuration names, again at each
// call: the certificate of tls, and the authorities of clients and of upstreams.
func (c *Config) CertificateFiles() (files []gateway.CertificateFile, err error) {
	for _, named := range c.certificateNames() {
		f, err := gateway.ReadCertificateFile(named.use, named.path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// certificateName is an option that names a file with certificates.
type certificateName struct{ use, option, path string }

// certificateNames returns the options of that kind that are set.
func (c *Config) certificateNames() []certificateName {
	return slices.DeleteFunc([]certificateName{
		{"server", "tls.cert", c.file.TLS.Cert}, {"client_ca", "tls.client_ca", c.file.TLS.ClientCA}, {"upstream_ca", "upstream_ca", c.file.CA},
	}, func(n certificateName) bool { return n.path == "" })
}
