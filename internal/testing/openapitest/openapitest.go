// Package openapitest validates requests and responses against an OpenAPI
// document, for tests. It makes no requests itself.
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

// APIDocument is a parsed OpenAPI document.
type APIDocument struct {
	*openapi3.T
	router routers.Router
}

// ReadDocument parses a document. Its paths are relative to the URL server or,
// if that is empty, to the document's servers.
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

// APIExchange is a request to one of the document's operations.
type APIExchange struct {
	// Path is the operation's path template in the document.
	Path string
	in   *openapi3filter.RequestValidationInput
}

// FindOperation returns the operation of a request. The APIExchange consumes
// the request body. It fails the test if the document has no such operation.
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

// CheckRequest returns an error if the request differs from the document.
func (e *APIExchange) CheckRequest(ctx context.Context) error {
	return openapi3filter.ValidateRequest(ctx, e.in)
}

// CheckAnswer returns an error if the response differs from the document. For
// streams and texts it checks only the media type.
func (e *APIExchange) CheckAnswer(ctx context.Context, status int, header http.Header, body []byte) error {
	kind := header.Get("Content-Type")
	e.in.Options.ExcludeResponseBody = kind != "" && (!strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "ndjson"))
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: e.in, Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Options: e.in.Options,
	})
}
