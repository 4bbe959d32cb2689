package job

import (
	"math"
	"strings"
	"testing"
)

// TestValidateLaunch checks each rule by its error. "" means accepted.
func TestValidateLaunch(t *testing.T) {
	fetch := func(a ...FetchArtifact) func(*Spec) { return func(s *Spec) { s.Fetch = a } }
	limits := func(cpus, mem float64) func(*Spec) {
		return func(s *Spec) { s.Limits = ResourceLimits{CPUs: cpus, MemMiB: mem} }
	}
	parameter := func(p ...DockerParameter) func(*Spec) { return func(s *Spec) { s.Parameters = p } }
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"user":              {func(s *Spec) { s.User = "1000:1000" }, ""},
		"user of mesos":     {func(s *Spec) { s.User, s.Containerizer = "daemon", Mesos }, ""},
		"longest user":      {func(s *Spec) { s.User = strings.Repeat("u", 255) }, ""},
		"longer user":       {func(s *Spec) { s.User = strings.Repeat("u", 256) }, "or is longer than 255 bytes"},
		"user with a blank": {func(s *Spec) { s.User = "a b" }, `user: "a b" holds a blank`},
		"user with a NUL":   {func(s *Spec) { s.User = "a\x00" }, `user: "a\x00" holds a blank`},
		"user with a DEL":   {func(s *Spec) { s.User = "a\x7f" }, `user: "a\x7f" holds a blank`},

		"entrypoint":          {func(s *Spec) { s.Entrypoint = "/bin/tini" }, ""},
		"entrypoint of mesos": {func(s *Spec) { s.Entrypoint, s.Containerizer = "/bin/tini", Mesos }, "entrypoint and parameters need container: docker"},
		"image's entrypoint":  {func(s *Spec) { s.ImageEntrypoint, s.Command = true, []string{"-v"} }, ""},
		"image's and another": {func(s *Spec) { s.ImageEntrypoint, s.Entrypoint, s.Command = true, "/x", []string{"-v"} },
			"image_entrypoint: it runs command as the arguments"},
		"image's, no command": {func(s *Spec) { s.ImageEntrypoint, s.Command = true, nil }, "image_entrypoint: it runs command as the arguments"},
		"image's, no image": {func(s *Spec) { s.ImageEntrypoint, s.Containerizer, s.Image, s.Command = true, Mesos, "", []string{"a"} },
			"image_entrypoint: it runs command as the arguments"},
		"parameters": {parameter(DockerParameter{"init", "true"}, DockerParameter{"env", ""}), ""},
		"parameters of mesos": {func(s *Spec) { s.Parameters, s.Containerizer = []DockerParameter{{"init", "true"}}, Mesos },
			"entrypoint and parameters need container: docker"},
		"no parameter": {parameter(DockerParameter{"", "a"}), `parameters: item 1: "" is not an option of docker run without its dashes`},
		"dashes":       {parameter(DockerParameter{"--init", "true"}), `parameters: item 1: "--init" is not an option of docker run without its dashes`},
		"unserved": {parameter(DockerParameter{"init", "true"}, DockerParameter{"privileged", "true"}),
			`parameters: item 2: "privileged" is not served: served are add-host, cap-add`},
		"many parameters": {func(s *Spec) { s.Parameters = make([]DockerParameter, 101) }, "parameters: 101 are more than 100"},

		"URI":            {fetch(FetchArtifact{URI: "https://example.org/a?b=c"}), ""},
		"agent's file":   {fetch(FetchArtifact{URI: "/etc/a.tar", Extract: true, Cache: true}), ""},
		"deep":           {fetch(FetchArtifact{URI: "hdfs://n/a", Path: "a/b..c", Executable: true}), ""},
		"hidden":         {fetch(FetchArtifact{URI: "/a", Path: "..a"}), ""},
		"relative":       {fetch(FetchArtifact{URI: "a"}), `fetch: "a" is neither an absolute path of the agent nor a URI of http, https`},
		"nothing":        {fetch(FetchArtifact{}), `fetch: "" is neither an absolute path`},
		"unknown scheme": {fetch(FetchArtifact{URI: "git://a/b"}), `fetch: "git://a/b" is neither an absolute path`},
		"no URI":         {fetch(FetchArtifact{URI: "http://a b"}), `fetch: "http://a b" is not a URI: `},
		"long":           {fetch(FetchArtifact{URI: "/" + strings.Repeat("a", 4096)}), "aaa\"… has 4097 bytes, more than 4096"},
		"file":           {fetch(FetchArtifact{URI: "file:///a"}, FetchArtifact{URI: "file://localhost/a"}), ""},
		"no slashes":     {fetch(FetchArtifact{URI: "file:/a"}), `fetch: "file:/a" is not a URI of a file that Mesos's fetcher reads: write file:///folder/file`},
		"loud":           {fetch(FetchArtifact{URI: "FILE:///a"}), `fetch: "FILE:///a" is not a URI of a file`},
		"another host":   {fetch(FetchArtifact{URI: "file://gpu1/a"}), `fetch: "file://gpu1/a" is not a URI of a file`},
		"both":           {fetch(FetchArtifact{URI: "/a", Extract: true, Executable: true}), `fetch: "/a" is to be extracted and executable: choose one`},
		"absolute name":  {fetch(FetchArtifact{URI: "/a", Path: "/etc/passwd"}), `fetch: path "/etc/passwd" of "/a" leaves the sandbox`},
		"outside":        {fetch(FetchArtifact{URI: "/a", Path: "../a"}), `fetch: path "../a" of "/a" leaves the sandbox`},
		"the parent":     {fetch(FetchArtifact{URI: "/a", Path: ".."}), `fetch: path ".." of "/a" leaves the sandbox`},
		"round about":    {fetch(FetchArtifact{URI: "/a", Path: "a/../b"}), `fetch: path "a/../b" of "/a" leaves the sandbox, or is not plain`},
		"many":           {func(s *Spec) { s.Fetch = make([]FetchArtifact, 101) }, "fetch: 101 are more than 100"},

		"limits":         {limits(2, 512), ""},
		"no more":        {limits(1, 256), ""},
		"unlimited":      {limits(Unlimited, Unlimited), ""},
		"one":            {limits(0, 512), ""},
		"fewer CPUs":     {limits(0.5, 0), "limits: cpus: 0.5 is not between the task's own 1 and 4096, nor -1 for unlimited"},
		"less memory":    {limits(0, 255), "limits: mem: 255 is not between the task's own 256 and"},
		"no number":      {limits(math.NaN(), 0), "limits: cpus: NaN is not between"},
		"more than all":  {limits(0, math.Inf(1)), "limits: mem: +Inf is not between"},
		"below no limit": {limits(-2, 0), "limits: cpus: -2 is not between"},
	} {
		t.Run(name, func(t *testing.T) {
			s := validContainer()
			s.Command = []string{"true"}
			c.change(&s)
			requireRejected(t, &s, c.want)
		})
	}
}
