// Package fetch downloads the URIs of a command into its sandbox before the
// command starts, as Mesos's fetcher does. It supports files of the agent's
// machine and HTTP servers. It writes nothing outside the sandbox, whatever an
// archive contains, and caches nothing.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/hostcheck"
	"mesos-gpu/job"
)

// maxBytes limits the size of one URI and of its extracted archive.
const maxBytes = 256 << 30

// FetchAll fetches each URI into folder, a path inside the sandbox. With a nil
// owner the files belong to the agent's user. It connects to the given hosts
// only, also when a server redirects.
func FetchAll(ctx context.Context, sandbox, folder string, uris []mesos.CommandInfo_URI, owner *syscall.Credential, hosts job.FetchHosts) error {
	if len(uris) == 0 {
		return nil
	}
	whole, err := os.OpenRoot(sandbox)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	defer whole.Close()
	root, err := whole.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	defer root.Close()
	f := artifactFetcher{root: root, owner: owner, hosts: hosts, left: maxBytes}
	for i := range uris {
		if err := f.fetchURI(ctx, &uris[i]); err != nil {
			return fmt.Errorf("fetch %s: %w", redactURI(uris[i].Value), err)
		}
	}
	return nil
}

// redactURI returns the URI without the parts that may be secret.
func redactURI(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "a URI that cannot be read"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

type artifactFetcher struct {
	root  *os.Root
	owner *syscall.Credential
	hosts job.FetchHosts
	left  int64 // bytes that may still be written
}

func (f *artifactFetcher) fetchURI(ctx context.Context, u *mesos.CommandInfo_URI) error {
	name, err := nameOf(u)
	if err != nil {
		return err
	}
	in, err := openURI(ctx, u.Value, f.hosts)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := f.makeFolder(path.Dir(name)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if u.GetExecutable() {
		mode = 0o755
	}
	if err := f.writeFile(name, mode, in); err != nil {
		return err
	}
	// Mesos extracts unless extract is false, and never an executable file.
	if (u.Extract == nil || *u.Extract) && !u.GetExecutable() {
		return f.extractURI(ctx, name, u.GetCache())
	}
	return nil
}

// extractURI unpacks a fetched archive. Mesos unpacks a cached one from its cache, so
// that the archive itself is not in the sandbox.
func (f *artifactFetcher) extractURI(ctx context.Context, name string, cached bool) error {
	extracted, err := f.extractArchive(ctx, name)
	if err != nil || !cached || !extracted {
		return err
	}
	return f.root.Remove(name)
}

// nameOf returns the path of a URI's file below the folder.
func nameOf(u *mesos.CommandInfo_URI) (string, error) {
	name := u.GetOutputFile()
	if own, local := job.AgentFilePath(u.Value); name == "" && local {
		name = path.Base(own)
	} else if name == "" {
		at, err := url.Parse(u.Value)
		if err != nil {
			return "", errors.New("it is no URI")
		}
		name = path.Base(at.Path)
	}
	if path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("%q is no name of a file in the sandbox", name)
	}
	return name, checkName(name)
}

// Limits of a file name: the kernel's path length, and a depth that keeps
// folder operations fast.
const maxName, maxDepth = 4096, 100

func checkName(name string) error {
	if len(name) > maxName || strings.Count(name, "/") > maxDepth {
		return fmt.Errorf("a name of %d bytes in %d folders: at most %d in %d", len(name), strings.Count(name, "/"), maxName, maxDepth)
	}
	return nil
}

// openURI opens a URI for reading.
func openURI(ctx context.Context, uri string, hosts job.FetchHosts) (io.ReadCloser, error) {
	if name, local := job.AgentFilePath(uri); local {
		if !path.IsAbs(name) {
			return nil, errors.New("it is no absolute path of this agent: write file:///folder/file")
		}
		return openFile(name)
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return nil, errors.New("it is no URI")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("this agent fetches http, https and its own files, not %q", u.Scheme)
	}
	if err := hosts.CheckURI(uri); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, errors.New("it is no URI")
	}
	res, err := newHTTPClient(hosts).Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // it repeats the URI, which may hold a secret
		}
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close() // its status is the error
		return nil, fmt.Errorf("the server answers %s", res.Status)
	}
	return res.Body, nil
}

// maxRedirects limits the redirects of one URI.
const maxRedirects = 10

// newHTTPClient returns a client for one request. It follows redirects to the
// hosts only, and connects to addresses that hosts permits. A proxy of the
// agent's environment may have any address. It resolves names itself, so it
// has to check their addresses.
func newHTTPClient(hosts job.FetchHosts) *http.Client {
	// Whether the current request or redirect uses a proxy. The next one begins
	// after the response to this one, and thus after its connection.
	proxied := false
	return &http.Client{
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if err := hosts.CheckURI(r.URL.String()); err != nil {
				return fmt.Errorf("redirected: %w", err)
			}
			return nil
		},
		Transport: &http.Transport{
			ResponseHeaderTimeout: time.Minute, DisableKeepAlives: true,
			Proxy: func(r *http.Request) (*url.URL, error) {
				proxy, err := http.ProxyFromEnvironment(r)
				proxied = proxy != nil
				return proxy, err
			},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if proxied {
					return (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, network, address)
				}
				return hostcheck.Dialer{Timeout: time.Minute, Check: hosts.CheckAddress}.DialContext(ctx, network, address)
			},
		},
	}
}

// openFile opens a regular file of the agent's machine. It does not block on a
// named pipe.
func openFile(name string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path.Clean(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeFile writes a new file. It fails if the file exists.
func (f *artifactFetcher) writeFile(name string, mode os.FileMode, from io.Reader) error {
	to, err := f.root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, io.LimitReader(from, f.left+1))
	if f.left -= n; err == nil && f.left < 0 {
		err = fmt.Errorf("it has more than the %d GiB that may come", maxBytes>>30)
	}
	// The umask has cleared bits of the mode passed to OpenFile.
	if err = errors.Join(err, to.Chmod(mode), to.Close()); err != nil {
		return err
	}
	return f.changeOwner(name)
}

func (f *artifactFetcher) changeOwner(name string) error {
	if f.owner == nil {
		return nil
	}
	return f.root.Lchown(name, int(f.owner.Uid), int(f.owner.Gid))
}
