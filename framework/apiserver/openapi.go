package apiserver

import (
	_ "embed"
	"net/http"

	"mesos-gpu/framework/api"
	"mesos-gpu/job/jobfile"
)

func (s *apiServer) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(api.OpenAPIDocument()) // an error means that the client has disconnected
	return nil
}

// handleJobSchema returns the JSON schema of job files.
func (s *apiServer) handleJobSchema(w http.ResponseWriter, _ *http.Request) error {
	text, err := jobfile.Schema()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(text) // likewise
	return nil
}
