package translate

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/job"
)

var (
	jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	// part generates ids that resemble each other and job names.
	part = rapid.StringMatching(`[a-z0-9]{1,3}([.-][a-z0-9]{1,8}){0,3}|[a-z]{50,70}`)
)

func drawID(t *rapid.T, label string) string {
	return "/" + strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, label), "/")
}

func drawVersion(t *rapid.T, label string) string {
	at := time.UnixMilli(rapid.Int64Range(-1e9, 4e12).Draw(t, label)).UTC()
	layout := rapid.SampledFrom([]string{versionLayout, versionLayout, time.RFC3339, "2006-01-02T15:04:05.000+00:00", "v.2"}).Draw(t, label+" layout")
	return at.Format(layout)
}

// Names are equal only for equal apps and versions, whatever their length, and each is a valid job name.
func TestNamesDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idA, idB := drawID(t, "id"), drawID(t, "other id")
		versionA, versionB := drawVersion(t, "version"), drawVersion(t, "other version")
		if rapid.Bool().Draw(t, "same id") {
			idB = idA
		} else if rapid.Bool().Draw(t, "id that looks like a name") {
			idB = "/" + strings.ReplaceAll(strings.ToLower(JobName(idA, versionA)), "_", "/")
		}
		a, b := JobName(idA, versionA), JobName(idB, versionB)
		if same := idA == idB && versionA == versionB; same != (a == b) {
			t.Errorf("%s %s is %s, %s %s is %s", idA, versionA, a, idB, versionB, b)
		}
		for _, name := range []string{a, b} {
			if !jobName.MatchString(name) {
				t.Errorf("%q is no job's name", name)
			}
		}
	})
}

func TestJobName(t *testing.T) {
	for _, test := range []struct{ id, version, want string }{
		{"/a", deployed, "a.mjwaidke"},
		{"/g/h/a.b-c", deployed, "g_h_a.b-c.mjwaidke"},
		{"/g/a", "", "g_a"},
		{"/a", "1970-01-01T00:00:00.001Z", "a.1"},
		{"/a", "2026-01-02T03:04:05Z", "a.2CEX43LMKCTA5VZ4JCRSGXTADN"},
		{"/" + strings.Repeat("a", 54), deployed, strings.Repeat("a", 54) + ".mjwaidke"},
		{"/" + strings.Repeat("a", 55), deployed, strings.Repeat("a", 36) + ".PED3VV6XNFL4YTOFBDQDCRIU64"},
	} {
		if got := JobName(test.id, test.version); got != test.want {
			t.Errorf("Name(%s, %s): got %s, want %s", test.id, test.version, got, test.want)
		}
	}
}

// AppOf reads the app from labels of jobs that the scheduler submitted. A job of a user, or
// one with another name or group, belongs to no app.
func TestAppOf(t *testing.T) {
	for name, spec := range readCorpusJobs(t) {
		id, version, ok := AppOf(&spec)
		if !ok || JobName(id, version) != spec.Name || id != spec.Group {
			t.Errorf("%s: got %q %q %v of %s", name, id, version, ok, spec.Name)
		}
		for what, forge := range map[string]func(*job.Spec){
			"another name":  func(s *job.Spec) { s.Name = "mine" },
			"another group": func(s *job.Spec) { s.Group = "/other" },
			"an owner":      func(s *job.Spec) { s.Owner = "viewer" },
		} {
			forged := spec
			forge(&forged)
			if _, _, ok := AppOf(&forged); ok {
				t.Errorf("%s: a job with %s is taken for it", name, what)
			}
		}
		spec.Name = RandomJobName(id)
		if _, _, ok := AppOf(&spec); !ok || len(spec.Name) > maxJobName || spec.Name == RandomJobName(id) {
			t.Errorf("%s: %s is no name of its jobs", name, spec.Name)
		}
	}
	if _, _, ok := AppOf(&job.Spec{Name: "a"}); ok {
		t.Error("a job without labels is taken for an app's")
	}
}
