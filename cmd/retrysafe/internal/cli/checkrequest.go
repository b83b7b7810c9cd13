package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/input"
)

// requestFlags say which request is sent.
type requestFlags struct {
	url, method, body  string
	header             []string
	curl, har, openapi string
	pick, server       string
}

func (f *requestFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVarP(&f.method, "request", "X", http.MethodPost, "method of the request")
	flags.StringArrayVarP(&f.header, "header", "H", nil, "header field of the request, 'Name: value'; can be repeated")
	flags.StringVarP(&f.body, "data", "d", "", "body of the request, or @FILE")
	flags.StringVar(&f.curl, "curl", "", "file with a curl command, as browsers copy it, or - for the standard input")
	flags.StringVar(&f.har, "har", "", "HAR file of a browser; --pick names the request")
	flags.StringVar(&f.openapi, "openapi", "", "OpenAPI 3 document with examples; --pick names the operation")
	flags.StringVar(&f.pick, "pick", "", "request of --har or operation of --openapi: 'POST /orders', or its operationId")
	flags.StringVar(&f.server, "server", "", "with --openapi: URL of the API in place of the document's first server")
}

// readRequest returns the request. Fields, body and, if it is given, the method take precedence
// over those of a file.
func (f *requestFlags) readRequest(stdin io.Reader, methodGiven bool) (r check.Request, err error) {
	sources := 0
	for _, s := range []string{f.url, f.curl, f.har, f.openapi} {
		if s != "" {
			sources++
		}
	}
	if sources != 1 {
		return r, errors.New("name the request by one of: a URL, --curl, --har, --openapi")
	}
	switch {
	case f.curl != "":
		r, err = f.fromCurl(stdin)
	case f.har != "":
		r, err = f.fromDocument(f.har, input.HAR)
	case f.openapi != "":
		r, err = f.fromDocument(f.openapi, func(data []byte) ([]input.Named, error) { return readOpenAPI(data, f.server) })
	default:
		r = check.Request{Method: f.method, URL: f.url}
	}
	if err != nil {
		return r, err
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if methodGiven {
		r.Method = f.method
	}
	given := make(http.Header)
	if err := addFields(given, f.header, "--header"); err != nil {
		return r, err
	}
	maps.Copy(r.Header, given)
	if f.body != "" {
		if r.Body, err = readBody(f.body); err != nil {
			return r, err
		}
	}
	guessContentType(&r)
	return r, nil
}

func readOpenAPI(document []byte, server string) ([]input.Named, error) {
	if drivers.OpenAPI == nil {
		return nil, notLinked("a reader of OpenAPI documents")
	}
	return drivers.OpenAPI(document, server)
}

func (f *requestFlags) fromCurl(stdin io.Reader) (check.Request, error) {
	text, err := readFile(f.curl, stdin)
	if err != nil {
		return check.Request{}, fmt.Errorf("--curl: %w", err)
	}
	return input.Shell{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv}.Curl(string(text))
}

func (f *requestFlags) fromDocument(file string, parse func([]byte) ([]input.Named, error)) (check.Request, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return check.Request{}, err
	}
	all, err := parse(data)
	if err != nil {
		return check.Request{}, fmt.Errorf("%s: %w", file, err)
	}
	named, err := input.Pick(all, f.pick)
	if err != nil {
		return check.Request{}, fmt.Errorf("%s: %w; --pick says which", file, err)
	}
	return named.Request, nil
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name) //nolint:gosec // the user names the file
}

// readBody returns the text, or the file of @FILE.
func readBody(text string) ([]byte, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return os.ReadFile(name) //nolint:gosec // the user names the file
	}
	return []byte(text), nil
}

// addFields adds fields that are written as 'Name: value'.
func addFields(h http.Header, lines []string, flag string) error {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("%s %q: write it as 'Name: value'", flag, Printable(name))
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return nil
}

// guessContentType sets the media type of a body without one, as its first character suggests.
func guessContentType(r *check.Request) {
	if len(r.Body) == 0 || r.Header.Get("Content-Type") != "" {
		return
	}
	switch r.Body[0] {
	case '{', '[':
		r.Header.Set("Content-Type", "application/json")
	default:
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
}

// readRoute reads another request of the API: METHOD URL, and a body after them. The URL may be
// relative to that of the request.
func readRoute(text string, r *check.Request) (*check.Request, error) {
	method, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	target, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if target == "" {
		return nil, fmt.Errorf("--other-route %q: write it as 'POST /refunds {\"amount\":1}'", text)
	}
	base, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	u, err := base.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("--other-route: %w", err)
	}
	other := r.Clone()
	other.Method, other.URL = method, u.String()
	if body = strings.TrimSpace(body); body != "" {
		if other.Body, err = readBody(body); err != nil {
			return nil, fmt.Errorf("--other-route: %w", err)
		}
	}
	return &other, nil
}
