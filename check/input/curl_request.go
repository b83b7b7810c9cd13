package input

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/place"
	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// toRequest returns what was read as a request.
func (c *curlCommand) toRequest() (check.Request, error) {
	r := check.Request{Method: c.methodOf(), Header: c.header}
	if err := c.setTarget(&r); err != nil {
		return check.Request{}, place.Fault(c.urlAt, "%w", err)
	}
	for name := range c.defaults {
		c.setDefault(name, c.defaults.Get(name))
	}
	if c.user != nil {
		c.setDefault("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(*c.user)))
	}
	if len(c.cookies) > 0 {
		c.setDefault("Cookie", strings.Join(c.cookies, "; "))
	}
	switch {
	case c.upload != nil:
		r.Body = c.upload.data
	case c.hasData && !c.get:
		r.Body = c.data
		if c.json {
			c.setDefault("Content-Type", "application/json")
			c.setDefault("Accept", "application/json")
		}
		c.setDefault("Content-Type", "application/x-www-form-urlencoded")
	}
	return r, nil
}

// setDefault sets a field that -H neither sets nor removes.
func (c *curlCommand) setDefault(name, value string) {
	if !c.removed[name] && c.header[name] == nil {
		c.header.Set(name, strings.Trim(value, " \t"))
	}
}

func (c *curlCommand) methodOf() string {
	switch {
	case c.method != "":
		return c.method
	case c.head:
		return http.MethodHead
	case c.upload != nil:
		return http.MethodPut
	case c.hasData && !c.get:
		return http.MethodPost
	default:
		return http.MethodGet
	}
}

// setTarget sets the URL of r, and the user of the URL.
func (c *curlCommand) setTarget(r *check.Request) error {
	if c.url == "" {
		return errors.New("it has no URL")
	}
	target, _, _ := strings.Cut(c.url, "#")
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := sendable.URL(target)
	if err != nil {
		return err
	}
	if u.User != nil {
		password, _ := u.User.Password()
		user := u.User.Username() + ":" + password
		if c.user == nil {
			c.user = &user
		}
		start := strings.Index(target, "://") + 3
		authority := target[start:]
		if end := strings.IndexAny(authority, "/?"); end >= 0 {
			authority = authority[:end]
		}
		target = target[:start] + target[start+strings.LastIndexByte(authority, '@')+1:]
	}
	query := c.query
	if c.get && len(c.data) > 0 {
		query = append(query, string(c.data))
	}
	if c.upload != nil && u.RawQuery == "" && strings.HasSuffix(target, "/") {
		target += url.PathEscape(c.upload.name[strings.LastIndexByte(c.upload.name, '/')+1:])
	}
	for _, part := range query {
		target = addToQuery(target, part)
	}
	target, _, _ = strings.Cut(target, "#") // of -G; curl leaves it out as well
	if _, err := sendable.URL(target); err != nil {
		return err
	}
	r.URL = target
	return nil
}

// addToQuery returns target with one more part in its query.
func addToQuery(target, part string) string {
	switch {
	case !strings.Contains(target, "?"):
		return target + "?" + part
	case strings.HasSuffix(target, "?") || strings.HasSuffix(target, "&"):
		return target + part
	default:
		return target + "&" + part
	}
}
