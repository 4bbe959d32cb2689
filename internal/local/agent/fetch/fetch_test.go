package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/job"
)

// archive returns a tar of the headers. The content of each file is its name.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipFile(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		e, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(e, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tree returns the files below a folder: files with mode and content, links with
// their targets.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type() == fs.ModeSymlink {
			to, err := os.Readlink(path)
			found[name] = "-> " + to
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func yes() *bool             { b := true; return &b }
func no() *bool              { b := false; return &b }
func as(name string) *string { return &name }

func TestFetchAll(t *testing.T) {
	host := t.TempDir()
	files := map[string][]byte{
		"plain": []byte("plain"), "a.gz": zipped(t, []byte("unpacked")), "b.zip": zipFile(t, "x", "dir/y"),
		"t.tar": archive(t, tar.Header{Name: "bin/run", Typeflag: tar.TypeReg, Mode: 0o755},
			tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755},
			tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "bin/run"}),
		"up.tar": archive(t, tar.Header{Name: "../../up", Typeflag: tar.TypeReg, Mode: 0o644}),
		"link.tgz": zipped(t, archive(t, tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "/"}, tar.Header{
			Name:     "out/escaped",
			Typeflag: tar.TypeReg,
			Mode:     0o644,
		})),
		"dev.tar":  archive(t, tar.Header{Name: "null", Typeflag: tar.TypeChar}),
		"deep.tar": archive(t, tar.Header{Name: strings.Repeat("d/", 2000) + "f", Typeflag: tar.TypeReg}),
		"bad.tgz":  []byte("this is no gzip"), "x.tar.xz": nil,
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(host, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(host)))
	defer server.Close()
	for name, c := range map[string]struct {
		uris []mesos.CommandInfo_URI
		want map[string]string
		err  string
	}{
		"a path": {[]mesos.CommandInfo_URI{{Value: host + "/plain"}}, map[string]string{"plain": "644 plain"}, ""},
		"a file URI": {[]mesos.CommandInfo_URI{{Value: "file://" + host + "/plain", OutputFile: as("deep/name")}},
			map[string]string{"deep/name": "644 plain"}, ""},
		"over HTTP": {[]mesos.CommandInfo_URI{{Value: server.URL + "/plain?token=secret", Executable: yes()}}, map[string]string{"plain": "755 plain"}, ""},
		"a tar": {[]mesos.CommandInfo_URI{{Value: host + "/t.tar"}},
			map[string]string{"t.tar": fmt.Sprintf("644 %s", files["t.tar"]), "bin/run": "755 bin/run", "l": "-> bin/run"}, ""},
		"a tar left as it is": {[]mesos.CommandInfo_URI{{Value: host + "/t.tar", Extract: no()}},
			map[string]string{"t.tar": fmt.Sprintf("644 %s", files["t.tar"])}, ""},
		"gzip": {[]mesos.CommandInfo_URI{{Value: server.URL + "/a.gz"}},
			map[string]string{"a.gz": fmt.Sprintf("644 %s", files["a.gz"]), "a": "644 unpacked"}, ""},
		"zip": {[]mesos.CommandInfo_URI{{Value: host + "/b.zip"}},
			map[string]string{"b.zip": fmt.Sprintf("644 %s", files["b.zip"]), "x": "644 x", "dir/y": "644 dir/y"}, ""},
		"names that lead up": {[]mesos.CommandInfo_URI{{Value: host + "/up.tar"}},
			map[string]string{"up.tar": fmt.Sprintf("644 %s", files["up.tar"]), "up": "644 ../../up"}, ""},
		"links that lead out": {[]mesos.CommandInfo_URI{{Value: host + "/link.tgz"}}, nil, `unpack "out/escaped"`},
		"devices":             {[]mesos.CommandInfo_URI{{Value: host + "/dev.tar"}}, nil, "neither file, folder nor link"},
		"not what it says":    {[]mesos.CommandInfo_URI{{Value: host + "/bad.tgz"}}, nil, "gzip: invalid header"},
		"too deep":            {[]mesos.CommandInfo_URI{{Value: host + "/deep.tar"}}, nil, "in 2000 folders"},
		"nothing is decoded":  {[]mesos.CommandInfo_URI{{Value: "file://" + host + "/%70lain"}}, nil, "no such file"},
		"nor cut off":         {[]mesos.CommandInfo_URI{{Value: "file://" + host + "/plain?/../other"}}, nil, "no such file"},
		"another host's":      {[]mesos.CommandInfo_URI{{Value: "file://elsewhere" + host + "/plain"}}, nil, "no absolute path of this agent"},
		"xz":                  {[]mesos.CommandInfo_URI{{Value: host + "/x.tar.xz"}}, nil, "unpacks no xz"},
		"not there":           {[]mesos.CommandInfo_URI{{Value: server.URL + "/none?token=secret"}}, nil, "/none?…: the server answers 404 Not Found"},
		"no server":           {[]mesos.CommandInfo_URI{{Value: "http://127.0.0.1:1/none?token=secret"}}, nil, "connection refused"},
		"a folder":            {[]mesos.CommandInfo_URI{{Value: host}}, nil, "is no plain file"},
		"another scheme":      {[]mesos.CommandInfo_URI{{Value: "hdfs://name/x"}}, nil, `not "hdfs"`},
		"a name outside":      {[]mesos.CommandInfo_URI{{Value: host + "/plain", OutputFile: as("../x")}}, nil, "no name of a file in the sandbox"},
		"twice":               {[]mesos.CommandInfo_URI{{Value: host + "/plain"}, {Value: host + "/plain"}}, nil, "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			box := t.TempDir()
			if err := os.MkdirAll(filepath.Join(box, "containers", "c"), 0o755); err != nil {
				t.Fatal(err)
			}
			err := FetchAll(t.Context(), box, "containers/c", c.uris, &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}, nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %q and no secret", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tree(t, filepath.Join(box, "containers", "c"))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := os.Lstat("/escaped"); err == nil {
		t.Error("an archive has written outside the sandbox")
	}
}

// With a list of hosts the agent connects to these only, also by a redirect or by a name with a
// local address.
func TestFetchAllConnectsToListedHostsOnly(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
	defer secret.Close()
	var target string
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			io.WriteString(w, "plain")
			return
		}
		http.Redirect(w, r, target, http.StatusFound)
	}))
	defer first.Close()
	firstHost, secretHost := strings.TrimPrefix(first.URL, "http://"), strings.TrimPrefix(secret.URL, "http://")
	port := secretHost[strings.LastIndexByte(secretHost, ':'):]
	for _, c := range []struct {
		name, uri, redirect string
		hosts               job.FetchHosts
		err                 string
	}{
		{"listed", first.URL + "/plain", "", job.FetchHosts{firstHost}, ""},
		{"not listed", first.URL + "/plain", "", job.FetchHosts{}, "to fetch from no host"},
		{"redirected to a listed host", first.URL + "/r", secret.URL, job.FetchHosts{firstHost, secretHost}, ""},
		{"redirected to the host itself", first.URL + "/r", first.URL + "/plain", job.FetchHosts{firstHost}, ""},
		{"redirected to another host", first.URL + "/r", secret.URL, job.FetchHosts{firstHost}, "redirected: " + secretHost + ": the access file allows"},
		{"redirected to a file of the agent", first.URL + "/r", "file:///etc/hostname", job.FetchHosts{firstHost}, "unsupported protocol scheme"},
		{"name with a local address", "http://localhost" + port + "/x", "", job.FetchHosts{"localhost" + port}, ""},
		{"suffix with a local address", "http://a.localhost" + port + "/x", "", job.FetchHosts{"*.localhost" + port}, "a.localhost" + port + " with the address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target = c.redirect
			err := FetchAll(t.Context(), t.TempDir(), ".", []mesos.CommandInfo_URI{{Value: c.uri, OutputFile: as("x")}}, nil, c.hosts)
			if strings.HasPrefix(c.uri, "http://a.localhost") && err != nil && strings.Contains(err.Error(), "no such host") {
				t.Skip("this machine's resolver has no names below localhost")
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

// FetchAll returns when its context ends, even if a server does not respond.
func TestFetchAllStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if err := FetchAll(ctx, t.TempDir(), ".", []mesos.CommandInfo_URI{{Value: server.URL + "/x"}}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestFetchedBytesAreLimited(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f := artifactFetcher{root: root, left: 4}
	if err := f.writeFile("some", 0o644, strings.NewReader("1234")); err != nil {
		t.Errorf("as much as may come: %v", err)
	}
	if err := f.writeFile("more", 0o644, strings.NewReader("5")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v, want that it is more", err)
	}
}
