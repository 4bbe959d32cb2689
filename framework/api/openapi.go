package api

import (
	_ "embed"
	"net/http"

	"mesos-gpu/job/jobfile"
)

// openAPIDocument says what the API takes and answers, for programs.
//
//go:embed openapi.yaml
var openAPIDocument []byte

func (s *apiServer) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPIDocument) // the client that went away learns nothing more
	return nil
}

// handleJobSchema says what a job file holds, for editors and other programs.
func (s *apiServer) handleJobSchema(w http.ResponseWriter, _ *http.Request) error {
	text, err := jobfile.Schema()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(text) // likewise
	return nil
}
