package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/theory/jsonpath"
)

// maxPage bounds the answer that a Page reads, in bytes.
const maxPage = 16 << 20

// Page counts by a GET of a page that shows how many effects there are. It is safe for concurrent
// use.
type Page struct {
	// URL is absolute, with the scheme http or https.
	URL string
	// Path is a JSONPath of RFC 9535 that says what counts in the answer.
	//
	// A path that names one place, such as $.total or $.orders, counts the number that is there, or
	// the length of the list that is there. Nothing and null count 0. Any other path, such as
	// $.orders[?@.amount == 500], counts the places that it finds.
	//
	// Without a path the whole answer is the number.
	Path string
	// Header has fields of the request, such as credentials.
	Header http.Header

	client *http.Client // nil: pageClient
}

// pageClient follows no redirect: a page that asks to log in would be taken for the answer.
var pageClient = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// adaptOracle returns oracle as an examination with these options asks it: a page has the
// certificates of the options, and its host is examined or allowed.
func (o *Options) adaptOracle(oracle Oracle) Oracle {
	page, ok := oracle.(Page)
	if p, pointer := oracle.(*Page); pointer && p != nil {
		page, ok = *p, true
	}
	if !ok {
		return oracle
	}
	client := newClient(o, 0)
	client.Timeout = pageClient.Timeout
	if transport, ok := client.Transport.(*http.Transport); ok {
		transport.DisableCompression = false
		transport.DisableKeepAlives = true // an idle connection may be all that a small service has
	}
	page.client = client
	return page
}

// ParsePage reads a page as a user writes it: "GET /orders | $.total", where GET and the path after
// the bar may be left out. A URL that is not absolute is resolved against base, which may be empty.
// It sends nothing.
func ParsePage(text, base string) (Page, error) {
	target, path, _ := strings.Cut(text, "|")
	words := strings.Fields(target)
	if len(words) == 2 && strings.EqualFold(words[0], http.MethodGet) {
		words = words[1:]
	}
	if len(words) != 1 {
		return Page{}, fmt.Errorf("check: page %q: write it as GET /orders | $.total", text)
	}
	to, err := url.Parse(words[0])
	if err != nil {
		return Page{}, fmt.Errorf("check: page %q: its URL: %w", text, causeWithoutURL(err))
	}
	if base != "" {
		from, err := url.Parse(base)
		if err != nil {
			return Page{}, fmt.Errorf("check: page %q: the URL of the API: %w", text, causeWithoutURL(err))
		}
		to = from.ResolveReference(to)
	}
	if !isAbsoluteHTTP(to) {
		return Page{}, fmt.Errorf("check: page %q: the URL needs http:// or https:// and a host", text)
	}
	p := Page{URL: to.String(), Path: strings.TrimSpace(path)}
	if _, err := p.parsePath(); err != nil {
		return Page{}, err
	}
	return p, nil
}

// isAbsoluteHTTP reports whether u can be asked over HTTP.
func isAbsoluteHTTP(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Count implements Oracle. It reads at most 16 MiB, and gives up after a minute if ctx does not end
// before.
func (p Page) Count(ctx context.Context) (int64, error) {
	path, err := p.parsePath()
	if err != nil {
		return 0, err
	}
	body, err := p.fetchBody(ctx)
	if err != nil {
		return 0, fmt.Errorf("check: %s: %w", p.String(), err)
	}
	n, err := countMatches(path, body)
	if err != nil {
		return 0, fmt.Errorf("check: %s: %w", p.String(), err)
	}
	return n, nil
}

// String implements Oracle. It leaves the query out, which may have secrets.
func (p Page) String() string {
	name := "GET a page"
	if u, err := url.Parse(p.URL); err == nil {
		name = "GET " + cmp.Or(u.EscapedPath(), "/")
	}
	if p.Path != "" {
		name += ", " + p.Path
	}
	return name
}

// parsePath returns nil without a path.
func (p Page) parsePath() (*jsonpath.Path, error) {
	if p.Path == "" {
		return nil, nil
	}
	path, err := jsonpath.Parse(p.Path)
	if err != nil {
		return nil, fmt.Errorf("check: JSONPath %q: %w", p.Path, err)
	}
	return path, nil
}

// fetchBody returns the body of the page.
func (p Page) fetchBody(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, http.NoBody)
	if err != nil {
		return nil, causeWithoutURL(err)
	}
	if !isAbsoluteHTTP(r.URL) {
		return nil, errors.New("the URL needs http:// or https:// and a host")
	}
	r.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.8")
	// an answer from a cache would hide effects
	r.Header.Set("Cache-Control", "no-cache")
	maps.Copy(r.Header, p.Header)
	if host := p.Header.Get("Host"); host != "" {
		r.Host = host
	}
	response, err := cmp.Or(p.client, pageClient).Do(r)
	if err != nil {
		return nil, causeWithoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, fmt.Errorf("the answer is %s to another page; name the page itself", response.Status)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return nil, fmt.Errorf("the answer is %s: %s", response.Status, quoteStart(body))
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", causeWithoutURL(err))
	case len(body) > maxPage:
		return nil, fmt.Errorf("the answer has more than %d MiB; name a page that shows less", maxPage>>20)
	}
	return body, nil
}

// countMatches counts what path finds in a body; without a path the body is the number.
func countMatches(path *jsonpath.Path, body []byte) (int64, error) {
	if path == nil {
		n, err := parseWhole(strings.TrimSpace(string(body)))
		if err != nil {
			return 0, fmt.Errorf("the answer %w; say with a JSONPath where the number is: | $.total", err)
		}
		return n, nil
	}
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		return 0, fmt.Errorf("the answer is no JSON (%w): %s", err, quoteStart(body))
	}
	nodes := path.Select(document)
	if path.Query().Singular() == nil {
		return int64(len(nodes)), nil
	}
	if len(nodes) == 0 {
		return 0, nil
	}
	return countValue(nodes[0])
}

// countValue counts the value at one place.
func countValue(node any) (int64, error) {
	switch value := node.(type) {
	case nil:
		// an empty list of Go is null
		return 0, nil
	case float64:
		// a float64 has every whole number up to here
		if value != float64(int64(value)) || value > 1<<53 || value < -1<<53 {
			return 0, fmt.Errorf("the path found %v, which is no whole number up to 2^53", value)
		}
		return int64(value), nil
	case string:
		// 64-bit numbers of Protocol Buffers are strings in JSON
		n, err := parseWhole(value)
		if err != nil {
			return 0, fmt.Errorf("the text that the path found %w", err)
		}
		return n, nil
	case []any:
		return int64(len(value)), nil
	case map[string]any:
		names := slices.Sorted(maps.Keys(value))
		return 0, fmt.Errorf("the path found an object with the members %s; "+
			"name one of them, or count all with .*", quoteStart([]byte(strings.Join(names, ", "))))
	default:
		return 0, fmt.Errorf("the path found %v, which is no number and no list", node)
	}
}

// causeWithoutURL returns the cause of an error of net/url or net/http, which has the URL with its
// secrets.
func causeWithoutURL(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		return outer.Err
	}
	return err
}
