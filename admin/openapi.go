package admin

import (
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
)

// object is a JSON object of the description.
type object = map[string]any

// openAPI serves the description of the API. It has no secret, and everybody may read it.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	writeAnswer(w, http.StatusOK, description())
}

// description is the description as JSON. Everybody may ask for it, so it is made once.
var description = sync.OnceValue(func() []byte {
	text, err := marshalPrintable(OpenAPI())
	if err != nil {
		panic(err) // it is made of texts
	}
	return text
})

// OpenAPI returns the description of the API, OpenAPI 3.1, made from the types and routes of this
// package.
func OpenAPI() map[string]any {
	schemas := object{}
	paths := object{}
	for i := range routes {
		r := &routes[i]
		path, _ := paths[prefix+r.path].(object)
		if path == nil {
			path = object{}
			paths[prefix+r.path] = path
		}
		path[strings.ToLower(r.method)] = r.describeOperation(schemas)
	}
	schemaOf(reflect.TypeFor[Problem](), schemas)
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "retrysafe administration", "version": "1",
			"description": "See what is in doubt, and settle it. Every change and every look at what is hidden is written to the audit log first.",
		},
		"paths": paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

// describeOperation returns the operation of a route, and adds its types to schemas.
func (r *route) describeOperation(schemas object) object {
	op := object{
		"operationId": r.operationID(), "summary": r.summary,
		"description": "Needs the role " + r.need.String() + ".",
		"security":    []object{{"token": []string{}}, {}},
		"responses": object{
			"200":     object{"description": "the document", "content": mediaContent("application/json", schemaOf(reflect.TypeOf(r.out), schemas))},
			"default": object{"description": "what was wrong", "content": mediaContent("application/problem+json", object{"$ref": "#/components/schemas/Problem"})},
		},
	}
	parameters := []object{}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parameters = append(parameters, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, p := range r.query {
		parameters = append(parameters, object{"name": p.name, "in": "query", "description": p.doc, "schema": object{"type": p.kind}})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if r.in != nil {
		op["requestBody"] = object{"required": true, "content": mediaContent("application/json", schemaOf(reflect.TypeOf(r.in), schemas))}
	}
	return op
}

func (r *route) operationID() string {
	words := strings.FieldsFunc(r.path, func(c rune) bool { return strings.ContainsRune("/{}", c) })
	return strings.ToLower(r.method) + "-" + strings.Join(words, "-")
}

func mediaContent(media string, schema object) object { return object{media: object{"schema": schema}} }

// schemaOf returns the schema of a type: a reference for a struct, which it adds to schemas.
func schemaOf(t reflect.Type, schemas object) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		name := schemaName(t)
		if _, known := schemas[name]; !known {
			schemas[name] = object{} // a type may have itself as a member
			schemas[name] = structSchema(t, schemas)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{"type": "integer"}
}

// schemaName returns the name of a type's schema. The type of a document that only the API has is
// not exported: recordJSON is Record.
func schemaName(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "JSON")
	return strings.ToUpper(name[:1]) + name[1:]
}

func structSchema(t reflect.Type, schemas object) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		p := schemaOf(f.Type, schemas)
		p["description"] = f.Tag.Get("doc")
		properties[name] = p
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
