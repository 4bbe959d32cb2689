// Package openapitest holds requests and answers against an OpenAPI document,
// for tests. It asks no server itself.
package openapitest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// APIDocument is one that was read.
type APIDocument struct {
	*openapi3.T
	router routers.Router
}

// ReadDocument reads a document. Its paths are below the server's URL or, where that is
// empty, below those that it names.
func ReadDocument(t testing.TB, text []byte, server string) *APIDocument {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if server != "" {
		doc.Servers = openapi3.Servers{{URL: server}}
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &APIDocument{doc, router}
}

// APIExchange is a request of one of the document's operations.
type APIExchange struct {
	// Path is the operation's, as the document has it.
	Path string
	in   *openapi3filter.RequestValidationInput
}

// FindOperation finds the operation of a request, whose body is the Exchange's to read.
// It ends the test where the document has none.
func (d *APIDocument) FindOperation(t testing.TB, r *http.Request) *APIExchange {
	t.Helper()
	route, params, err := d.router.FindRoute(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return &APIExchange{route.Path, &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}}
}

// CheckRequest says in what the request is not as documented.
func (e *APIExchange) CheckRequest(ctx context.Context) error {
	return openapi3filter.ValidateRequest(ctx, e.in)
}

// CheckAnswer says in what an answer to it is not. Streams and texts have no schema:
// of them the type alone is checked.
func (e *APIExchange) CheckAnswer(ctx context.Context, status int, header http.Header, body []byte) error {
	kind := header.Get("Content-Type")
	e.in.Options.ExcludeResponseBody = kind != "" && !strings.HasSuffix(kind, "json")
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: e.in, Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Options: e.in.Options,
	})
}
