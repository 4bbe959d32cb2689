package job

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Bounds of lists that agents and engines receive.
const (
	maxArtifacts  = 100
	maxParameters = 100
	maxURI        = 4096
)

// fetchSchemes lists the schemes that Mesos's fetcher supports without a plugin,
// and the schemes of plugins that operators install most often.
var fetchSchemes = []string{"http", "https", "ftp", "ftps", "file", "hdfs", "s3", "s3a", "s3n", "hftp"}

// validateLaunch checks how the task is started, and its limits.
func (s *Spec) validateLaunch(bad reportFunc) {
	if strings.ContainsFunc(s.User, func(r rune) bool { return r <= ' ' || r == 0x7f }) || len(s.User) > 255 {
		bad(field("user"), "user: %q holds a blank, or is longer than 255 bytes", s.User)
	}
	if s.Containerizer == Mesos && (s.Entrypoint != "" || len(s.Parameters) > 0) {
		bad(field("entrypoint").and("parameters", "container"), "entrypoint and parameters need container: %s", Docker)
	}
	if s.ImageEntrypoint && (s.Image == "" || len(s.Command) == 0 || s.Entrypoint != "") {
		bad(field("image_entrypoint").and("image", "command", "entrypoint"),
			"image_entrypoint: it runs command as the arguments of the image's own entrypoint: give both, and no entrypoint")
	}
	s.validateWorkdir(bad)
	s.validateChdir(bad)
	s.validateInterruption(bad)
	if len(s.Artifacts) > maxArtifacts {
		bad(field("artifacts"), "artifacts: %d are more than %d", len(s.Artifacts), maxArtifacts)
	}
	for i, name := range s.Artifacts {
		if !isSandboxPath(name) {
			bad(field("artifacts", i), "artifacts: %q is not a plain path in the sandbox, such as results or results/model.pt", name)
		}
	}
	if len(s.Parameters) > maxParameters {
		bad(field("parameters"), "parameters: %d are more than %d", len(s.Parameters), maxParameters)
	}
	for i, p := range s.Parameters {
		if err := p.Validate(); err != nil {
			bad(field("parameters", i), "parameters: item %d: %w", i+1, err)
		}
	}
	if len(s.Fetch) > maxArtifacts {
		bad(field("fetch"), "fetch: %d are more than %d", len(s.Fetch), maxArtifacts)
	}
	for i, a := range s.Fetch {
		if err := a.validate(); err != nil {
			bad(field("fetch", i), "fetch: %w", err)
		}
	}
	for _, l := range []struct {
		key         string
		limit, sure float64
		most        float64
	}{{"cpus", s.Limits.CPUs, s.CPUs, maxCPUs}, {"mem", s.Limits.MemMiB, s.MemMiB, maxMiB}} {
		if l.limit != 0 && l.limit != Unlimited && !(l.limit >= l.sure && l.limit <= l.most) {
			bad(field("limits", l.key).and("cpus", "mem"),
				"limits: %s: %g is not between the task's own %g and %g, nor %d for unlimited", l.key, l.limit, l.sure,
				l.most, Unlimited)
		}
	}
}

func (a FetchArtifact) validate() error {
	u, err := url.Parse(a.URI)
	switch {
	case len(a.URI) > maxURI:
		return fmt.Errorf("%.40q… has %d bytes, more than %d", a.URI, len(a.URI), maxURI)
	case err != nil:
		return fmt.Errorf("%q is not a URI: %w", a.URI, err)
	case u.Scheme == "" && !path.IsAbs(a.URI), u.Scheme != "" && !slices.Contains(fetchSchemes, u.Scheme):
		return fmt.Errorf("%q is neither an absolute path of the agent nor a URI of %s", a.URI, strings.Join(fetchSchemes, ", "))
	case u.Scheme == "file" && !strings.HasPrefix(a.URI, "file:///") && !strings.HasPrefix(a.URI, "file://localhost/"):
		return fmt.Errorf("%q is not a URI of a file that Mesos's fetcher reads: write file:///folder/file", a.URI)
	case a.Extract && a.Executable:
		return fmt.Errorf("%q is to be extracted and executable: choose one", a.URI)
	case a.Path != "" && (path.IsAbs(a.Path) || path.Clean(a.Path) != a.Path || a.Path == ".." || strings.HasPrefix(a.Path, "../")):
		return fmt.Errorf("path %q of %q leaves the sandbox, or is not plain", a.Path, a.URI)
	}
	return nil
}
