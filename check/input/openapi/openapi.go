// Package openapi makes requests of an OpenAPI document.
package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/input"
	"github.com/retrysafe/retrysafe/check/internal/place"
	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// maxDocument bounds an OpenAPI document, in bytes.
const maxDocument = 16 << 20

// Read reads an OpenAPI 3 document, JSON or YAML, and returns its operations with POST, PUT,
// PATCH and DELETE, in the order of their paths. server replaces the servers of the document, their
// paths included, unless it is empty.
//
// Values are taken from examples, else from defaults, constants and the first of an enum, else the
// smallest value that a schema allows. Optional parts are sent if they have an example. The key and
// the credentials are left out. An operation that cannot be filled has a reason with the JSON
// pointer of the place. A $ref to anything outside of the document is an error.
func Read(data []byte, server string) (all []input.Named, err error) {
	defer func() {
		// the document is from outside, and the reader of it is not ours
		if p := recover(); p != nil {
			all, err = nil, fmt.Errorf("OpenAPI document: it cannot be read: %v", p)
		}
	}()
	doc, err := loadDocument(data)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	if server != "" {
		if _, err := sendable.URL(server); err != nil {
			return nil, fmt.Errorf("the server: %w", err)
		}
	}
	paths := doc.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		if item == nil {
			continue
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			op := item.GetOperation(method)
			if op == nil {
				continue
			}
			o := operation{doc: doc, item: item, op: op, path: path, method: method}
			all = append(all, o.toNamed(server))
		}
	}
	return all, nil
}

// loadDocument reads a document without opening anything else.
func loadDocument(data []byte) (*openapi3.T, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("more than %d MiB", maxDocument>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' {
		var value json.RawMessage
		if err := json.Unmarshal(data, &value); err != nil {
			return nil, place.Named(string(data), place.OfJSON(data, err))
		}
	}
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = false
	doc, err := loader.LoadFromData(data)
	switch {
	case err != nil:
		return nil, err
	case !strings.HasPrefix(doc.OpenAPI, "3."):
		return nil, errors.New("/openapi has to be 3.0 or newer; convert a document of Swagger 2 first")
	}
	return doc, nil
}

// operation is one operation of a document.
type operation struct {
	doc          *openapi3.T
	item         *openapi3.PathItem
	op           *openapi3.Operation
	path, method string
}

func (o *operation) toNamed(server string) input.Named {
	n := input.Named{Name: o.method + " " + o.path, ID: o.op.OperationID}
	n.Request = check.Request{Method: o.method, Header: make(http.Header)}
	if err := o.fillRequest(&n.Request, server); err != nil {
		n.Reason = err.Error()
	}
	return n
}

// jsonPointer returns the JSON pointer of the operation.
func (o *operation) jsonPointer() string {
	return "/paths/" + escapePointer(o.path) + "/" + strings.ToLower(o.method)
}

// escapePointer returns name as a part of a JSON pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func (o *operation) fillRequest(r *check.Request, server string) error {
	base, err := o.serverURL(server)
	if err != nil {
		return err
	}
	target := requestTarget{path: o.path, header: r.Header}
	for _, p := range o.mergedParameters() {
		if err := target.addParameter(p); err != nil {
			return fmt.Errorf("%s/parameters, %s in %s: %w", o.jsonPointer(), p.Name, p.In, err)
		}
	}
	if strings.ContainsAny(target.path, "{}") {
		return fmt.Errorf("%s: a part of the path in braces has no parameter", o.jsonPointer())
	}
	r.URL = strings.TrimSuffix(base, "/") + target.path
	if target.query != "" {
		r.URL += "?" + target.query
	}
	if _, err := sendable.URL(r.URL); err != nil {
		return fmt.Errorf("%s: %w", o.jsonPointer(), err)
	}
	if err := o.fillBody(r); err != nil {
		return fmt.Errorf("%s/requestBody%w", o.jsonPointer(), err)
	}
	return nil
}

// serverURL returns the URL before the path.
func (o *operation) serverURL(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	servers := o.doc.Servers
	switch {
	case o.op.Servers != nil && len(*o.op.Servers) > 0:
		servers = *o.op.Servers
	case len(o.item.Servers) > 0:
		servers = o.item.Servers
	}
	if len(servers) == 0 || servers[0] == nil {
		return "", errors.New("/servers: the document names no server; name one")
	}
	text := servers[0].URL
	for name, v := range servers[0].Variables {
		if v == nil {
			continue
		}
		value := v.Default
		if value == "" && len(v.Enum) > 0 {
			value = v.Enum[0]
		}
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	u, err := sendable.URL(text)
	if err != nil || strings.ContainsAny(text, "{}") || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("/servers/0: %q cannot be used as it is; name the server", text)
	}
	return text, nil
}

// mergedParameters returns the parameters of the path and of the operation, which are stronger.
func (o *operation) mergedParameters() []*openapi3.Parameter {
	var all []*openapi3.Parameter
	for _, ref := range slices.Concat(o.item.Parameters, o.op.Parameters) {
		if ref == nil || ref.Value == nil {
			continue
		}
		same := func(p *openapi3.Parameter) bool { return p.Name == ref.Value.Name && p.In == ref.Value.In }
		all = append(slices.DeleteFunc(all, same), ref.Value)
	}
	return all
}
