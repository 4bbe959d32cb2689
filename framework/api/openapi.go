package api

import (
	_ "embed"
	"net/http"

	"mesos-gpu/job/jobfile"
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

// jobSchema says what a job file holds, for editors and other programs.
func (s *server) jobSchema(w http.ResponseWriter, _ *http.Request) error {
	text, err := jobfile.Schema()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(text) // likewise
	return nil
}
