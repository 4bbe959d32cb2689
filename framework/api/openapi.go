package api

import _ "embed"

// Version is the version of the REST API: the first part of its paths, and that of the
// OpenAPI document.
const Version = "v1"

// openAPIDocument is the OpenAPI description of the API.
//
//go:embed openapi.yaml
var openAPIDocument []byte

// OpenAPIDocument returns the OpenAPI description of the API, in YAML. The caller must
// not modify it.
func OpenAPIDocument() []byte { return openAPIDocument }
