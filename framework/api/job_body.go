package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// yamlMediaTypes say that a body is a job file, which may be JSON all the same:
// that is YAML too.
var yamlMediaTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

func isJobFile(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && slices.Contains(yamlMediaTypes, kind)
}

// readSpec reads a job: a job file, or a Spec in JSON. The body comes with it,
// as it was sent.
func readSpec(w http.ResponseWriter, r *http.Request) (spec job.Spec, body []byte, err error) {
	var read bytes.Buffer
	r.Body = io.NopCloser(io.TeeReader(r.Body, &read))
	if isJobFile(r) {
		spec, err = readJobFile(w, r)
	} else {
		err = hintAtYAML(readJSON(w, r, &spec))
	}
	return spec, read.Bytes(), err
}

func readJobFile(w http.ResponseWriter, r *http.Request) (job.Spec, error) {
	spec, err := jobfile.Read(http.MaxBytesReader(w, r.Body, maxBody), "job file")
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return job.Spec{}, bodyTooLarge(large)
	case err != nil:
		return job.Spec{}, NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return *spec, nil
}

// hintAtYAML is for those who sent a job file as JSON.
func hintAtYAML(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusBadRequest {
		p.Detail += "; send a job file with Content-Type: application/yaml"
	}
	return err
}
