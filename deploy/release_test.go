package deploy

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"mesos-gpu/internal/testing/testneeds"
)

// checkBillOfMaterials checks that the SPDX document describes the program and all of its
// modules with their licences.
func checkBillOfMaterials(t *testing.T, file, program string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		SPDXVersion string `json:"spdxVersion"`
		Packages    []struct {
			Name, VersionInfo, LicenseDeclared string
			Checksums                          []struct{ Algorithm, ChecksumValue string }
		}
		Relationships []struct{ RelationshipType string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sum, checked := sha256.Sum256(data), false
	described := map[string]bool{}
	for _, p := range doc.Packages {
		described[p.Name+" "+p.VersionInfo] = true
		if p.LicenseDeclared == "" || p.LicenseDeclared == "NOASSERTION" {
			t.Errorf("%s: the document has no licence of %s", file, p.Name)
		}
		for _, c := range p.Checksums {
			checked = checked || c.Algorithm == "SHA256" && c.ChecksumValue == hex.EncodeToString(sum[:])
		}
	}
	for _, m := range info.Deps {
		if !described[m.Path+" "+m.Version] {
			t.Errorf("%s: the document lacks %s %s", file, m.Path, m.Version)
		}
	}
	if doc.SPDXVersion != "SPDX-2.3" || !checked || len(doc.Relationships) != len(doc.Packages) || !described["stdlib "+info.GoVersion] {
		t.Errorf("%s: got version %s, the program's checksum %v, %d relationships of %d packages", file, doc.SPDXVersion,
			checked, len(doc.Relationships), len(doc.Packages))
	}
}

// checkImage checks the configuration of a daemon's image, without an engine.
func checkImage(t *testing.T, file, daemon, arch string) {
	t.Helper()
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	user := map[string]string{"scheduler": "mesos-gpu", "agent": "root"}[daemon]
	if c.Architecture != arch || c.Config.User != user || !slices.Equal(c.Config.Entrypoint, []string{"/usr/bin/mesos-gpu", daemon}) {
		t.Errorf("%s: got %s, user %s, %q", file, c.Architecture, c.Config.User, c.Config.Entrypoint)
	}
}

// checkSums checks that SHA256SUMS lists all files of a release.
func checkSums(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !f.IsDir() && f.Name() != "SHA256SUMS" && !strings.Contains(string(out), f.Name()+": OK\n") {
			t.Errorf("SHA256SUMS lacks %s", f.Name())
		}
	}
}

// checkImagesRun loads the images of this machine's architecture, and runs the programs.
func checkImagesRun(t *testing.T, dir string) {
	engine := testneeds.RequireDockerEngine(t)
	ctx := t.Context()
	for daemon, args := range map[string][]string{
		"scheduler": {"/usr/bin/mesos-gpu", "version"},
		"agent":     {"/usr/bin/mesos-gpu", "discover", "--simulate", "2xV100"},
	} {
		found, err := filepath.Glob(filepath.Join(dir, "mesos-gpu-"+daemon+"-*.image.tar"))
		if err != nil || len(found) != 1 {
			t.Fatalf("got the images %q, %v, want one", found, err)
		}
		img, err := tarball.ImageFromPath(found[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		id, err := img.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(found[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		loaded, err := engine.ImageLoad(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, loaded.Body); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, err := engine.ImageRemove(context.WithoutCancel(ctx), id.String(), image.RemoveOptions{Force: true})
			if err != nil {
				t.Error(err)
			}
		})
		c, err := engine.ContainerCreate(ctx, &container.Config{Image: id.String(), Entrypoint: args}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = engine.ContainerRemove(context.WithoutCancel(ctx), c.ID, container.RemoveOptions{Force: true})
		})
		if err := engine.ContainerStart(ctx, c.ID, container.StartOptions{}); err != nil {
			t.Fatal(err)
		}
		ended, failed := engine.ContainerWait(ctx, c.ID, container.WaitConditionNotRunning)
		select {
		case err := <-failed:
			t.Fatal(err)
		case e := <-ended:
			if e.StatusCode != 0 {
				t.Errorf("%s: %q ended with %d", daemon, args, e.StatusCode)
			}
		}
	}
}
