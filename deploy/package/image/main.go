// Command image writes a container image of the scheduler or of the agent daemon as an
// archive for docker load, without a registry and without a base image: the program,
// the C library that it is linked to and the certificates of this machine. Equal
// arguments and files give equal archives.
//
//	image -daemon scheduler|agent -program FILE -arch ARCH -version VERSION -date SECONDS -libraries DIR:DIR [-file IMAGEPATH=FILE] OUT
package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const programPath = "usr/bin/mesos-gpu"

type imageConfig struct {
	// daemon is scheduler or agent.
	daemon string
	// program is the file of mesos-gpu, for architecture arch.
	program, arch, version string
	// libraries are the folders in which the program's shared libraries are.
	libraries []string
	// files are further files, by their paths in the image.
	files map[string]string
	// date is the time of all files and of the image.
	date time.Time
}

func main() {
	c := imageConfig{files: map[string]string{}}
	flag.StringVar(&c.daemon, "daemon", "", "scheduler or agent")
	flag.StringVar(&c.program, "program", "", "file of mesos-gpu")
	flag.StringVar(&c.arch, "arch", "", "its architecture")
	flag.StringVar(&c.version, "version", "", "its version, the tag of the image")
	libraries := flag.String("libraries", "", "folders of shared libraries, separated by colons")
	date := flag.Int64("date", 0, "date of the image, in seconds since 1970")
	flag.Func("file", "IMAGEPATH=FILE: another file; ignored if it does not exist", func(text string) error {
		inside, file, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("use IMAGEPATH=FILE")
		}
		if _, err := os.Stat(file); err == nil {
			c.files[strings.TrimPrefix(inside, "/")] = file
		}
		return nil
	})
	flag.Parse()
	c.libraries, c.date = filepath.SplitList(*libraries), time.Unix(*date, 0).UTC()
	if err := writeImage(c, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func writeImage(c imageConfig, out string) error {
	user, ok := map[string]string{"scheduler": "mesos-gpu", "agent": "root"}[c.daemon]
	if !ok {
		return fmt.Errorf("-daemon %s: use scheduler or agent", c.daemon)
	}
	layer, err := c.makeLayer()
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }, tarball.WithCompressedCaching)
	if err != nil {
		return err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: c.date}, CreatedBy: "deploy/package/image"}})
	if err != nil {
		return err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created = c.arch, "linux", v1.Time{Time: c.date}
	file.Config = v1.Config{
		User: user, Entrypoint: []string{"/" + programPath, c.daemon}, WorkingDir: "/var/lib/mesos-gpu/" + c.daemon,
		Env: []string{"PATH=/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "mesos-gpu " + c.daemon,
			"org.opencontainers.image.version":  c.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return err
	}
	tag, err := name.NewTag("mesos-gpu-" + c.daemon + ":" + c.version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(out, tag, img)
}

// schedulerUser is the number of the scheduler's user in the image.
const schedulerUser = 64080

// makeLayer returns the image's files as a tar archive.
func (c imageConfig) makeLayer() ([]byte, error) {
	var buf bytes.Buffer
	w := layerWriter{tar.NewWriter(&buf), c.date, map[string]bool{}}
	entries := []tar.Header{
		{Name: "usr/lib/", Mode: 0o755}, {Name: "usr/bin/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}, {Name: "run/mesos-gpu/", Mode: 0o755},
		{Name: "var/lib/mesos-gpu/agent/", Mode: 0o755}, {Name: "var/lib/mesos-gpu/scheduler/", Mode: 0o700, Uid: schedulerUser, Gid: schedulerUser},
	}
	for _, link := range []string{"lib", "lib64", "bin"} { // the loader's path and its default folders
		entries = append(entries, tar.Header{Name: link, Linkname: "usr/" + strings.TrimSuffix(link, "64"), Mode: 0o777})
	}
	for i := range entries {
		if err := w.add(&entries[i], nil); err != nil {
			return nil, err
		}
	}
	texts := map[string]string{
		"etc/passwd": fmt.Sprintf("root:x:0:0::/root:/bin/false\nmesos-gpu:x:%d:%[1]d::/var/lib/mesos-gpu/scheduler:/bin/false\nnobody:x:65534:65534::/:/bin/false\n",
			schedulerUser),
		"etc/group":         fmt.Sprintf("root:x:0:\nmesos-gpu:x:%d:\nnogroup:x:65534:\n", schedulerUser),
		"etc/nsswitch.conf": "hosts: files dns\n",
	}
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		if err := w.add(&tar.Header{Name: p, Mode: 0o644}, []byte(texts[p])); err != nil {
			return nil, err
		}
	}
	files, err := c.programFiles()
	if err != nil {
		return nil, err
	}
	maps.Copy(files, c.files)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[p])
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if strings.HasPrefix(p, "usr/bin/") || strings.HasPrefix(path.Base(p), "ld") {
			mode = 0o755
		}
		if err := w.add(&tar.Header{Name: p, Mode: mode}, data); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.tar.Close()
}

// programFiles returns the program and the libraries that it needs, by path in the
// image.
func (c imageConfig) programFiles() (map[string]string, error) {
	files, todo := map[string]string{programPath: c.program}, []string{c.program}
	for len(todo) > 0 {
		needed, err := neededLibraries(todo[0])
		if err != nil {
			return nil, err
		}
		todo = todo[1:]
		for _, lib := range needed {
			inside := "usr/lib/" + lib
			if files[inside] != "" {
				continue
			}
			i := slices.IndexFunc(c.libraries, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, lib)); return err == nil })
			if i < 0 {
				return nil, fmt.Errorf("%s is in none of the folders %s", lib, strings.Join(c.libraries, ", "))
			}
			files[inside] = filepath.Join(c.libraries[i], lib)
			todo = append(todo, files[inside])
		}
	}
	return files, nil
}

// neededLibraries returns the names of the shared libraries and of the loader that a
// program or library refers to.
func neededLibraries(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			needed = append(needed, path.Base(strings.TrimRight(string(loader), "\x00")))
		}
	}
	return needed, nil
}

// layerWriter writes a tar archive in which all entries have one date and all parent
// folders exist.
type layerWriter struct {
	tar     *tar.Writer
	date    time.Time
	folders map[string]bool
}

func (w *layerWriter) add(h *tar.Header, data []byte) error {
	if dir := path.Dir(strings.TrimSuffix(h.Name, "/")); dir != "." && !w.folders[dir] {
		if err := w.add(&tar.Header{Name: dir + "/", Mode: 0o755}, nil); err != nil {
			return err
		}
	}
	h.Typeflag, h.Size, h.ModTime, h.Format = tar.TypeReg, int64(len(data)), w.date, tar.FormatPAX
	switch {
	case h.Linkname != "":
		h.Typeflag = tar.TypeSymlink
	case strings.HasSuffix(h.Name, "/"):
		h.Typeflag, w.folders[strings.TrimSuffix(h.Name, "/")] = tar.TypeDir, true
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.tar.Write(data)
	return err
}
