package api

import _ "embed"

// openAPIDocument is the OpenAPI description of the API.
//
//go:embed openapi.yaml
var openAPIDocument []byte

// OpenAPIDocument returns the OpenAPI description of the API, in YAML. The caller must
// not modify it.
func OpenAPIDocument() []byte { return openAPIDocument }
