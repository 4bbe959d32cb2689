package apiserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// yamlMediaTypes mark a body as a job file. The job file may also be JSON, which is
// valid YAML.
var yamlMediaTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

// isJobFile reports whether a request has the media type of a job file.
func isJobFile(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && slices.Contains(yamlMediaTypes, kind)
}

// readSpec reads and completes a job: a job file, or a Spec in JSON. It also returns
// the body as it was sent. The job needs no further validation.
func readSpec(w http.ResponseWriter, r *http.Request) (spec job.Spec, body []byte, err error) {
	var read bytes.Buffer
	r.Body = io.NopCloser(io.TeeReader(r.Body, &read))
	if isJobFile(r) {
		if spec, err = readJobFile(w, r); err != nil {
			return spec, read.Bytes(), err
		}
		return spec, read.Bytes(), checkSubmittable(&spec)
	}
	if err := readJSON(w, r, &spec); err != nil {
		return spec, nil, hintAtYAML(err)
	}
	if err := spec.Complete(); err != nil {
		return spec, nil, api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return spec, read.Bytes(), checkSubmittable(&spec)
}

// checkSubmittable rejects labels and groups that only the scheduler may set, and
// working folders that were not uploaded.
func checkSubmittable(spec *job.Spec) error {
	if err := spec.CheckSubmittedWorkdir(); err != nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, "%w", err).WithCode(api.CodeWorkdirNotFound, spec.Workdir)
	}
	err := spec.CheckReserved()
	if reserved, ok := errors.AsType[*job.ReservedError](err); ok {
		return api.NewProblemf(http.StatusUnprocessableEntity, "%w", err).WithCode(api.CodeReserved, reserved.Value)
	}
	return err
}

// readJobFile reads and completes a job file.
func readJobFile(w http.ResponseWriter, r *http.Request) (job.Spec, error) {
	spec, err := jobfile.Read(http.MaxBytesReader(w, r.Body, maxBody), "job file")
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return job.Spec{}, bodyTooLarge(large)
	case err != nil:
		return job.Spec{}, api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return *spec, nil
}

// writeJobFile returns a job file of a Spec.
func writeJobFile(spec job.Spec) (string, error) {
	var text strings.Builder
	err := jobfile.Write(&text, &spec)
	return text.String(), err
}

// hintAtYAML adds a hint for a client that has sent a job file with the type of JSON.
func hintAtYAML(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusBadRequest {
		p.Detail += "; send a job file with Content-Type: application/yaml"
	}
	return err
}
