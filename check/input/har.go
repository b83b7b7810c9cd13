package input

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/place"
	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// harFile is what is read of a HAR file, version 1.1 or 1.2.
type harFile struct {
	Log *struct {
		Entries []struct {
			Request harRequest `json:"request"`
		} `json:"entries"`
	} `json:"log"`
}

type harRequest struct {
	Method  string    `json:"method"`
	URL     string    `json:"url"`
	Headers []harPair `json:"headers"`
	Cookies []harPair `json:"cookies"`
	Body    *harBody  `json:"postData"`
}

type harPair struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	FileName string `json:"fileName"`
}

type harBody struct {
	MimeType string    `json:"mimeType"`
	Text     *string   `json:"text"`
	Encoding string    `json:"encoding"`
	Params   []harPair `json:"params"`
}

// HAR reads a HAR file as browsers and proxies save it, and returns the requests that may have an
// effect, in the order of the file. A request that cannot be sent again has the reason, with the
// JSON pointer of its place. The field Host and the pseudo-fields of HTTP/2 are left out, since the
// URL has the host. Cookies that only the list of cookies has are sent too.
func HAR(data []byte) ([]Named, error) {
	if len(data) > maxText {
		return nil, fmt.Errorf("HAR file: more than %d MiB", maxText>>20)
	}
	var file harFile
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("HAR file: %w", place.Named(string(data), place.OfJSON(data, err)))
	}
	if file.Log == nil {
		return nil, errors.New("HAR file: /log is missing")
	}
	var all []Named
	for i := range file.Log.Entries {
		r := &file.Log.Entries[i].Request
		if method := strings.ToUpper(r.Method); !isUnsafe(method) {
			continue
		}
		named := Named{Name: r.nameOf()}
		at := fmt.Sprintf("/log/entries/%d/request", i)
		if err := r.fillRequest(&named.Request); err != nil {
			named.Reason = at + err.Error()
		}
		all = append(all, named)
	}
	return numberNames(all), nil
}

func (r *harRequest) nameOf() string {
	path := "/"
	if u, err := url.Parse(r.URL); err == nil && u.Path != "" {
		path = u.EscapedPath()
	}
	return r.Method + " " + path
}

// fillRequest sets to. Its error begins with the rest of a JSON pointer.
func (r *harRequest) fillRequest(to *check.Request) error {
	to.Method, to.Header = r.Method, make(http.Header)
	if err := sendable.Method(r.Method); err != nil {
		return fmt.Errorf("/method: %w", err)
	}
	u, err := sendable.URL(r.URL)
	if err != nil {
		return fmt.Errorf("/url: %w", err)
	}
	to.URL, _, _ = strings.Cut(r.URL, "#")
	if err := r.fillHeader(to.Header, u); err != nil {
		return err
	}
	if r.Body == nil {
		return nil
	}
	if to.Body, err = r.Body.bodyBytes(to.Header.Get("Content-Type")); err != nil {
		return fmt.Errorf("/postData: %w", err)
	}
	if len(to.Body) > 0 && to.Header["Content-Type"] == nil && r.Body.MimeType != "" {
		if err := sendable.AddField(to.Header, "Content-Type", r.Body.MimeType); err != nil {
			return fmt.Errorf("/postData/mimeType: %w", err)
		}
	}
	return nil
}

func (r *harRequest) fillHeader(h http.Header, u *url.URL) error {
	for i, pair := range r.Headers {
		if strings.HasPrefix(pair.Name, ":") || strings.EqualFold(pair.Name, "Host") && strings.EqualFold(pair.Value, u.Host) {
			continue
		}
		if err := sendable.AddField(h, pair.Name, pair.Value); err != nil {
			return fmt.Errorf("/headers/%d: %w", i, err)
		}
	}
	// a browser of HTTP/2 sends each cookie in a field of its own
	if cookies := h["Cookie"]; len(cookies) > 1 {
		h["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if h["Cookie"] != nil || len(r.Cookies) == 0 {
		return nil
	}
	var cookies []string
	for _, pair := range r.Cookies {
		cookies = append(cookies, pair.Name+"="+pair.Value)
	}
	if err := sendable.AddField(h, "Cookie", strings.Join(cookies, "; ")); err != nil {
		return fmt.Errorf("/cookies: %w", err)
	}
	return nil
}

// bodyBytes returns the body of a request whose field Content-Type is contentType, or empty.
func (b *harBody) bodyBytes(contentType string) ([]byte, error) {
	switch {
	case b.Text != nil && (*b.Text != "" || len(b.Params) == 0):
		if strings.EqualFold(b.Encoding, "base64") {
			data, err := base64.StdEncoding.DecodeString(*b.Text)
			if err != nil {
				return nil, fmt.Errorf("the text is no base64: %w", err)
			}
			return data, nil
		}
		return []byte(*b.Text), nil
	case len(b.Params) == 0:
		return nil, nil
	}
	kind, _, _ := strings.Cut(b.MimeType, ";")
	if contentType != "" {
		kind, _, _ = strings.Cut(contentType, ";")
	}
	if !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return nil, errors.New("the file has only the values of the form and not the body that was sent")
	}
	var form []string
	for _, p := range b.Params {
		// most browsers write what they sent, which is encoded already
		form = append(form, encodeOnce(p.Name)+"="+encodeOnce(p.Value))
	}
	return []byte(strings.Join(form, "&")), nil
}

// encodeOnce returns text as a part of a form. Text that could be encoded already stays.
func encodeOnce(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		if strings.ReplaceAll(url.QueryEscape(plain), "%20", "+") == strings.ReplaceAll(text, "%20", "+") {
			return text
		}
	}
	return url.QueryEscape(text)
}
