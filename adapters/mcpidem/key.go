package mcpidem

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// identifyCall returns the guard of a call, and the call as the guard identifies it.
func (g *guards) identifyCall(req *mcp.CallToolRequest) (*rpcidem.Guard, *rpcidem.Call, *rpcidem.Refusal) {
	guard, lines := g.clientKeys, g.keyLines(req)
	sum, err := g.rule.Sum("application/json", "", callArguments(req))
	if lines == nil && g.o.Argument != "" {
		if err != nil { // an argument that is there twice has two values
			return nil, nil, rpcidem.NewRefusal("REQUEST_UNREADABLE", err)
		}
		lines = g.keyArgument(req)
	}
	switch {
	case lines == nil && g.derivedKeys != nil && err != nil:
		return nil, nil, rpcidem.NewRefusal("REQUEST_UNREADABLE", err)
	case lines == nil && g.derivedKeys != nil:
		guard, lines = g.derivedKeys, []string{base64.RawURLEncoding.EncodeToString(sum)}
	case err != nil:
		// never equal to a sum, which begins with its version
		sum = append([]byte("as written\n"), req.Params.Arguments...)
	}
	return guard, &rpcidem.Call{
		Method:   req.Params.Name,
		Metadata: func(string) []string { return lines },
		Payload:  func() ([]byte, error) { return sum, nil },
	}, nil
}

// callArguments returns the arguments of a call. A call without any has an empty object.
func callArguments(req *mcp.CallToolRequest) []byte {
	args := bytes.TrimSpace(req.Params.Arguments)
	if len(args) == 0 || string(args) == "null" {
		return []byte("{}")
	}
	return args
}

// keyLines returns the key that a client sent, as the lines of a header field. It returns nil if
// there is none.
func (g *guards) keyLines(req *mcp.CallToolRequest) []string {
	for _, name := range g.o.Meta {
		value, ok := req.Params.Meta[name]
		if !ok {
			continue
		}
		key, _ := value.(string)
		return []string{keyLine(key)}
	}
	if req.Extra == nil {
		return nil
	}
	for _, name := range g.o.Headers {
		if lines := req.Extra.Header[http.CanonicalHeaderKey(name)]; len(lines) > 0 {
			return lines
		}
	}
	return nil
}

// keyArgument returns the key in the argument that may have one, as a line of a header field. It
// returns nil if there is none.
func (g *guards) keyArgument(req *mcp.CallToolRequest) []string {
	var all map[string]any
	if json.Unmarshal(callArguments(req), &all) != nil || all[g.o.Argument] == nil {
		return nil
	}
	key, _ := all[g.o.Argument].(string)
	return []string{keyLine(key)}
}

// keyLine returns a key as a line of a header field. That of a malformed key is refused as such.
func keyLine(key string) string {
	line, err := httpidem.FormatKey(key)
	if err != nil {
		return ""
	}
	return line
}
