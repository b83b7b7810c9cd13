package openapi_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check/input"
	"github.com/retrysafe/retrysafe/check/input/openapi"
)

const shop = `openapi: 3.0.3
info: {title: Shop, version: "1"}
servers:
  - url: "https://{region}.shop.example/{v}"
    variables: {region: {default: eu}, v: {enum: [v1, v2], default: v1}}
paths:
  /orders:
    get: {responses: {}}
    post:
      operationId: createOrder
      parameters:
        - {name: Idempotency-Key, in: header, required: true, schema: {type: string}}
        - {name: X-Shop, in: header, required: true, schema: {type: string, enum: [a, b]}}
        - {name: dry, in: query, schema: {type: boolean}}
        - {name: tag, in: query, example: [x y, z], schema: {type: array, items: {type: string}}}
        - {name: ids, in: query, explode: false, example: [1, 2], schema: {type: array, items: {type: integer}}}
        - {name: s, in: cookie, required: true, schema: {type: integer, minimum: 7}}
      requestBody: {$ref: '#/components/requestBodies/Order'}
  /orders/{id}/lines/{n}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string, format: uuid}}
      - {name: n, in: path, required: true, example: a/b, schema: {type: string}}
    patch:
      operationId: changeLine
      requestBody:
        content:
          multipart/form-data: {schema: {type: object}}
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties: {a: {type: number, minimum: 0, exclusiveMinimum: true}, b: {type: array, items: {type: string, maxLength: 3}}}
    delete: {operationId: removeLine}
  /notes:
    put:
      requestBody:
        required: true
        content: {text/plain: {examples: {b: {value: second}, a: {value: first}}}}
  /hard:
    post:
      requestBody:
        required: true
        content:
          application/json: {schema: {type: object, required: [code], properties: {code: {type: string, pattern: '^x+$'}}}}
  /endless:
    post:
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}
  /files:
    post: {requestBody: {required: true, content: {multipart/form-data: {schema: {type: object}}}}}
  /gap/{x}:
    delete: {operationId: gap}
components:
  requestBodies:
    Order:
      required: true
      content:
        application/xml: {example: <order/>}
        application/json: {schema: {$ref: '#/components/schemas/Order'}}
  schemas:
    Node: {type: object, required: [next], properties: {next: {$ref: '#/components/schemas/Node'}}}
    Money: {type: object, required: [amount, currency], properties: {amount: {type: integer, minimum: 50, multipleOf: 20}, currency: {type: string, default: eur}, id: {type: string, readOnly: true}}}
    Order:
      allOf:
        - {$ref: '#/components/schemas/Money'}
        - type: object
          required: [at, to]
          properties:
            at: {type: string, format: date-time}
            to: {oneOf: [{type: string, pattern: x}, {type: string, format: email}]}
            note: {type: string, example: "a <b>"}
            other: {type: string}
`

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	all, err := openapi.Read([]byte(shop), "")
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://eu.shop.example/v1"
	for id, want := range map[string]struct{ url, body, kind, cookie, shop string }{
		"createOrder": {
			base + "/orders?tag=x+y&tag=z&ids=1,2",
			`{"amount":60,"at":"2030-01-02T03:04:05Z","currency":"eur","note":"a <b>","to":"someone@example.com"}`,
			"application/json", "s=7", "a",
		},
		"changeLine": {base + "/orders/6f1c1f0e-1f3b-4c53-9a3e-0d6f0a5b7c21/lines/a%2Fb", "a=1&b=str", "application/x-www-form-urlencoded", "", ""},
		"removeLine": {base + "/orders/6f1c1f0e-1f3b-4c53-9a3e-0d6f0a5b7c21/lines/a%2Fb", "", "", "", ""},
		"PUT /notes": {base + "/notes", "first", "text/plain", "", ""},
	} {
		n, err := input.Pick(all, id)
		r := n.Request
		if err != nil || r.URL != want.url || string(r.Body) != want.body || r.Header.Get("Content-Type") != want.kind ||
			r.Header.Get("Cookie") != want.cookie || r.Header.Get("X-Shop") != want.shop || r.Header["Idempotency-Key"] != nil {
			t.Errorf("%s: %+v %s, %v", id, n, r.Body, err)
		}
	}
	for name, want := range map[string]string{
		"POST /hard":      "/paths/~1hard/post/requestBody/content/application~1json/schema/properties/code: a text with a pattern",
		"POST /endless":   "contains itself",
		"POST /files":     "/paths/~1files/post/requestBody/content/multipart~1form-data: bodies of this type",
		"DELETE /gap/{x}": "/paths/~1gap~1{x}/delete: a part of the path",
	} {
		if _, err := input.Pick(all, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	if len(all) != 8 {
		t.Errorf("%d operations", len(all))
	}
	all, err = openapi.Read([]byte(shop), "http://localhost:8080/api/")
	if n, _ := input.Pick(all, "PUT /notes"); err != nil || n.Request.URL != "http://localhost:8080/api/notes" {
		t.Errorf("another server: %+v, %v", n, err)
	}
}

func TestOpenAPIOpensNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was opened", r.URL)
	}))
	defer server.Close()
	for _, ref := range []string{server.URL + "/a.json", "/etc/passwd", "file:///etc/passwd", "other.yaml#/A", "../x.json"} {
		doc := `{"openapi":"3.0.0","info":{"title":"a","version":"1"},"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"` + ref + `"}}}}}}}}`
		if all, err := openapi.Read([]byte(doc), "http://localhost"); err == nil || !strings.Contains(err.Error(), "external") {
			t.Errorf("%s: %+v, %v", ref, all, err)
		}
	}
}

func TestOpenAPINamesThePlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "/openapi",
		`{"swagger": "2.0"}`:       "/openapi has to be 3.0",
		"{\"openapi\":\n \"3.0\"":  "line 2, column 6",
		"openapi: 3.0.0\npaths: [": "line",
	} {
		if all, err := openapi.Read([]byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, all, err, want)
		}
	}
	for _, servers := range []string{"[]", `[{"url": "/v1"}]`, `[{"url": "https://{x}.example"}]`} {
		all, err := openapi.Read([]byte(`{"openapi":"3.1.0","servers":`+servers+`,"paths":{"/a":{"post":{}}}}`), "")
		if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Reason, "/servers") {
			t.Errorf("%s: %+v, %v", servers, all, err)
		}
	}
	if _, err := openapi.Read([]byte(shop), "localhost:8080"); err == nil {
		t.Error("a server without http:// was taken")
	}
}

func FuzzOpenAPI(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"integer"}}}}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := openapi.Read(data, "http://localhost:8080")
		if err != nil {
			return
		}
		for _, n := range all {
			if n.Reason != "" {
				continue
			}
			r, err := http.NewRequestWithContext(t.Context(), n.Request.Method, n.Request.URL, bytes.NewReader(n.Request.Body))
			if err != nil || r.URL.Host == "" {
				t.Errorf("%+v: %v", n, err)
				continue
			}
			r.Header = n.Request.Header
			if err := r.Write(io.Discard); err != nil {
				t.Errorf("%+v: %v", n, err)
			}
		}
	})
}
