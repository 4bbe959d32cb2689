package api

import (
	_ "embed"
	"net/http"
)

// openAPI says what the API takes and answers, for programs.
//
//go:embed openapi.yaml
var openAPI []byte

func (s *server) document(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the client that went away learns nothing more
	return nil
}
