package input

import (
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// flags are options without a value. Those that are not in switches change how curl connects, waits
// and prints, but not the request.
var flagOptions = wordSet(`get head
	insecure silent show-error include location location-trusted verbose compressed fail
	fail-with-body fail-early globoff no-buffer buffer progress-bar progress-meter disable
	http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only ipv4 ipv6 path-as-is remote-name
	remote-name-all remote-header-name remote-time parallel raw tcp-nodelay tcp-fastopen keepalive
	sslv2 sslv3 tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 ssl ssl-reqd ssl-no-revoke ssl-allow-beast
	alpn npn sessionid basic junk-session-cookies post301 post302 post303 create-dirs
	retry-connrefused retry-all-errors styled-output tr-encoding trace-time trace-ids xattr
	cert-status clobber doh-insecure suppress-connect-headers`)

// switches are the flags that change the request.
var requestFlags = map[string]func(*curlCommand){
	"get":  func(c *curlCommand) { c.get = true },
	"head": func(c *curlCommand) { c.head = true },
}

// ignored are options with a value that do not change the request.
var ignoredOptions = wordSet(`output output-dir write-out max-time connect-timeout retry retry-delay
	retry-max-time max-redirs dump-header cookie-jar cacert capath stderr trace trace-ascii
	limit-rate speed-limit speed-time keepalive-time ciphers tls13-ciphers curves tls-max max-filesize
	expect100-timeout happy-eyeballs-timeout-ms interface local-port parallel-max rate
	dns-servers dns-interface`)

// values are the options with a value that change the request.
var valueOptions = map[string]func(*curlCommand, word) error{
	"request": func(c *curlCommand, w word) error { c.method = w.text; return sendable.Method(w.text) },
	"url":     func(c *curlCommand, w word) error { return c.setURL(w, w.text) },
	"header":  func(c *curlCommand, w word) error { return c.addHeader(w.text) },

	"data":           func(c *curlCommand, w word) error { return c.addFile(w.text, true) },
	"data-ascii":     func(c *curlCommand, w word) error { return c.addFile(w.text, true) },
	"data-binary":    func(c *curlCommand, w word) error { return c.addFile(w.text, false) },
	"data-raw":       func(c *curlCommand, w word) error { c.addData([]byte(w.text)); return nil },
	"data-urlencode": func(c *curlCommand, w word) error { return c.addEncoded(w.text) },
	"json":           func(c *curlCommand, w word) error { c.json = true; return c.addFile(w.text, false) },
	"url-query":      func(c *curlCommand, w word) error { return c.addQuery(w.text) },
	"upload-file":    func(c *curlCommand, w word) error { return c.addUpload(w.text) },

	"user":          func(c *curlCommand, w word) error { return c.setUser(w.text) },
	"oauth2-bearer": func(c *curlCommand, w word) error { return c.setField("Authorization", "Bearer "+w.text) },
	"user-agent":    func(c *curlCommand, w word) error { return c.setField("User-Agent", w.text) },
	"referer":       func(c *curlCommand, w word) error { return c.setReferer(w.text) },
	"range":         func(c *curlCommand, w word) error { return c.setField("Range", "bytes="+w.text) },
	"cookie":        func(c *curlCommand, w word) error { return c.addCookies(w.text) },
}

// refused are options that are understood and cannot be followed.
var refusedOptions = map[string]string{
	"form":                 "a form of several parts is not known; send it with -d or as JSON",
	"form-string":          "a form of several parts is not known; send it with -d or as JSON",
	"next":                 "one command may have one request",
	":":                    "one command may have one request",
	"config":               "a file of options is not read; write them into the command",
	"netrc":                "a file of passwords is not read; use -u USER:PASSWORD",
	"netrc-file":           "a file of passwords is not read; use -u USER:PASSWORD",
	"netrc-optional":       "a file of passwords is not read; use -u USER:PASSWORD",
	"digest":               "this kind of credentials is not known",
	"ntlm":                 "this kind of credentials is not known",
	"negotiate":            "this kind of credentials is not known",
	"anyauth":              "this kind of credentials is not known",
	"aws-sigv4":            "this kind of credentials is not known",
	"cert":                 "certificates of clients are not known",
	"key":                  "certificates of clients are not known",
	"proxy":                "proxies are not known",
	"socks5":               "proxies are not known",
	"socks5-hostname":      "proxies are not known",
	"preproxy":             "proxies are not known",
	"resolve":              "put the address into the URL, and the host into -H 'Host: NAME'",
	"connect-to":           "put the address into the URL, and the host into -H 'Host: NAME'",
	"unix-socket":          "sockets of a file are not known; use an address with a port",
	"abstract-unix-socket": "sockets of a file are not known; use an address with a port",
	"request-target":       "the target of the request is that of the URL",
}

// short are the options of one letter.
var shortOptions = map[byte]string{
	'0': "http1.0", '1': "tlsv1", '2': "sslv2", '3': "sslv3", '4': "ipv4", '6': "ipv6", '#': "progress-bar",
	':': ":", 'A': "user-agent", 'b': "cookie", 'c': "cookie-jar", 'd': "data", 'D': "dump-header",
	'e': "referer", 'E': "cert", 'f': "fail", 'F': "form", 'g': "globoff", 'G': "get", 'H': "header",
	'i': "include", 'I': "head", 'j': "junk-session-cookies", 'J': "remote-header-name", 'k': "insecure",
	'K': "config", 'L': "location", 'm': "max-time", 'n': "netrc", 'N': "no-buffer", 'o': "output",
	'O': "remote-name", 'q': "disable", 'r': "range", 'R': "remote-time", 's': "silent", 'S': "show-error",
	'T': "upload-file", 'u': "user", 'v': "verbose", 'w': "write-out", 'x': "proxy", 'X': "request",
	'y': "speed-time", 'Y': "speed-limit", 'Z': "parallel",
}

// wordSet returns the words of text.
func wordSet(text string) map[string]bool {
	s := make(map[string]bool)
	for name := range strings.FieldsSeq(text) {
		s[name] = true
	}
	return s
}

// takesValue reports whether an option has a value.
func takesValue(name string) bool { return ignoredOptions[name] || valueOptions[name] != nil }

// addHeader takes the value of -H.
func (c *curlCommand) addHeader(text string) error {
	if strings.HasPrefix(text, "@") {
		return errors.New("a file of header fields is not read; write each with its own -H")
	}
	name, value, colon := strings.Cut(text, ":")
	if !colon {
		empty, semicolon := strings.CutSuffix(strings.TrimSpace(text), ";")
		if !semicolon {
			return fmt.Errorf("write it as 'Name: value', or as 'Name;' for an empty value")
		}
		return sendable.AddField(c.header, empty, "")
	}
	if strings.TrimSpace(value) == "" {
		// so curl leaves out a field of its own
		c.removed[canonicalName(name)] = true
		return nil
	}
	return sendable.AddField(c.header, name, value)
}

// setField takes an option that is a field; the last one counts, and -H is stronger.
func (c *curlCommand) setField(name, value string) error {
	delete(c.defaults, name)
	if value == "" {
		return nil
	}
	return sendable.AddField(c.defaults, name, value)
}

func (c *curlCommand) setReferer(text string) error {
	return c.setField("Referer", strings.TrimSuffix(text, ";auto"))
}

func (c *curlCommand) setUser(text string) error {
	if !strings.Contains(text, ":") {
		return errors.New("write it as USER:PASSWORD; curl would ask for the password")
	}
	c.user = &text
	return nil
}

func (c *curlCommand) addCookies(text string) error {
	if !strings.Contains(text, "=") {
		return errors.New("a file of cookies is not read; write them as NAME=VALUE")
	}
	c.cookies = append(c.cookies, text)
	return sendable.AddField(make(map[string][]string), "Cookie", text)
}
