package client

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"mesos-gpu/framework/api"
)

// ListTaskFiles lists a folder in a task's sandbox, or describes a file. The path is
// relative to the sandbox; "" is the sandbox itself. It works until Mesos removes the
// sandbox, some time after the task's end.
func (c *Client) ListTaskFiles(ctx context.Context, task, name string) (list api.SandboxList, err error) {
	err = c.getJSON(ctx, sandboxURL(task, "files", url.Values{"path": {name}}), &list)
	return list, err
}

// sandboxURL returns the path of a request about files of a task.
func sandboxURL(task, kind string, q url.Values) string {
	return "/v1/tasks/" + url.PathEscape(task) + "/" + kind + "?" + q.Encode()
}

// ListArtifacts lists the artifacts of a job's tasks that were copied to the scheduler's
// store. They are read like files of the sandbox, also after Mesos has removed it.
func (c *Client) ListArtifacts(ctx context.Context, name string) (list api.ArtifactList, err error) {
	err = c.getJSON(ctx, "/v1/jobs/"+url.PathEscape(name)+"/artifacts", &list)
	return list, err
}

// OpenTaskFile returns a file of a task's sandbox and its size; the caller must close it.
// The reader resumes after broken connections.
func (c *Client) OpenTaskFile(ctx context.Context, task, name string) (file io.ReadCloser, size int64, err error) {
	f := &sandboxReader{ctx: ctx, client: c, task: task, name: name}
	if err := f.openAnswer(); err != nil {
		return nil, 0, err
	}
	f.size = f.body.ContentLength
	return f, f.size, nil
}

// sandboxReader reads a file and resumes after broken connections.
type sandboxReader struct {
	ctx        context.Context // stored, because io.Reader has no context parameter
	client     *Client
	task, name string
	// offset is the number of bytes read so far, size the file's length when it was opened.
	offset, size int64
	// body is the response that is read; tries counts the failures since the last data.
	body  *http.Response
	tries int
}

// openAnswer requests the file from the offset on.
func (r *sandboxReader) openAnswer() (err error) {
	q := url.Values{"path": {r.name}}
	if r.offset > 0 {
		q.Set("offset", strconv.FormatInt(r.offset, 10))
	}
	r.body, err = r.client.sendRequest(r.ctx, http.MethodGet, sandboxURL(r.task, "file", q), nil)
	return err
}

// Close closes the connection.
func (r *sandboxReader) Close() error { return r.body.Body.Close() }

// maxResumes limits the consecutive attempts to resume without any data.
const maxResumes = 5

// Read implements io.Reader. A file that became shorter meanwhile is an error.
func (r *sandboxReader) Read(p []byte) (int, error) {
	for {
		if r.offset >= r.size {
			return 0, io.EOF
		}
		n, err := r.body.Body.Read(p[:min(int64(len(p)), r.size-r.offset)])
		r.offset += int64(n)
		if n > 0 {
			r.tries = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		if r.tries++; r.tries > maxResumes || r.ctx.Err() != nil {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		_ = r.body.Body.Close() // broken
		if err := sleepContext(r.ctx, retryDelay(r.tries-1)); err != nil {
			return 0, err
		}
		if err := r.openAnswer(); err != nil {
			return 0, err
		}
	}
}

// CopyOptions change how files are copied.
type CopyOptions struct {
	// OnProgress, if not nil, is called with the bytes that were copied since the call
	// before, and with the total of the file; 0 if it is not known.
	OnProgress func(copied, total int64)
	// OnSkip, if not nil, is called for each file in a folder that the agent does not
	// serve, such as a link out of the sandbox. Such files are left out.
	OnSkip func(name string, why error)
}

// report calls OnProgress, unless that is nil.
func (o CopyOptions) report(n, total int64) {
	if o.OnProgress != nil {
		o.OnProgress(n, total)
	}
}

const (
	// maxCopyDepth and maxCopyFiles limit the copy of a folder: links of a task may lead in circles.
	maxCopyDepth, maxCopyFiles = 64, 200_000
)

// CopyFromTask copies a file or a folder from a task's sandbox. A target that is a folder
// gets a file or folder of the same name; the sandbox itself is copied into it. A file
// appears when it is complete.
func (c *Client) CopyFromTask(ctx context.Context, task, name, target string, o CopyOptions) error {
	list, err := c.ListTaskFiles(ctx, task, name)
	if err != nil {
		return err
	}
	if info, err := os.Stat(target); list.Path != "." && (err == nil && info.IsDir() || strings.HasSuffix(target, "/")) {
		target = filepath.Join(target, list.File.Name)
	}
	d := sandboxDownload{client: c, ctx: ctx, task: task, options: o}
	if list.File.Folder {
		return d.copyFolder(list, target, 0)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	return d.copyFile(list.Path, list.File, target)
}

// sandboxDownload is the copy of one folder or file.
type sandboxDownload struct {
	client  *Client
	ctx     context.Context // stored, because all methods use it
	task    string
	options CopyOptions
	// files counts the entries so far.
	files int
}

// copyFolder copies the entries of a folder that is depth folders below the first one. Names come from the agent and may
// not lead out of target.
func (d *sandboxDownload) copyFolder(list api.SandboxList, target string, depth int) error {
	if err := os.MkdirAll(target, 0o777); err != nil {
		return err
	}
	for _, f := range list.Files {
		name := path.Join(list.Path, f.Name)
		if d.files++; d.files > maxCopyFiles || depth >= maxCopyDepth {
			return fmt.Errorf("%s: more than %d files, or folders in more than %d others: a link may lead in a circle", name, maxCopyFiles, maxCopyDepth)
		}
		if !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, "/\\") {
			return fmt.Errorf("%s: %q is not the name of a file", list.Path, f.Name)
		}
		to := filepath.Join(target, f.Name)
		switch {
		case f.Folder:
			below, err := d.client.ListTaskFiles(d.ctx, d.task, name)
			if err = d.skipUnreadable(name, err); err == nil && below.File.Folder {
				err = d.copyFolder(below, to, depth+1)
			}
			if err != nil {
				return err
			}
		case !f.Special:
			if err := d.skipUnreadable(name, d.copyFile(name, f, to)); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipUnreadable returns err unless it concerns one file of a folder only.
func (d *sandboxDownload) skipUnreadable(name string, err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != http.StatusForbidden && p.Status != http.StatusNotFound && p.Status != http.StatusUnprocessableEntity {
		return err
	}
	if d.options.OnSkip != nil {
		d.options.OnSkip(name, err)
	}
	return nil
}

// partSuffix ends the name of a file that is not complete.
const partSuffix = ".part"

// copyFile copies one file under a temporary name. Of its mode it keeps whether the owner may execute it.
func (d *sandboxDownload) copyFile(name string, f api.SandboxFile, target string) error {
	from, size, err := d.client.OpenTaskFile(d.ctx, d.task, name)
	if err != nil {
		return err
	}
	defer from.Close()
	mode := fs.FileMode(0o666)
	if n, err := strconv.ParseUint(f.Mode, 8, 32); err == nil && n&0o100 != 0 {
		mode = 0o777
	}
	to, err := os.OpenFile(target+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	d.options.report(0, size)
	_, err = io.Copy(to, &progressReader{from, func(n int64) { d.options.report(n, size) }})
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(target+partSuffix, target)
	}
	if err != nil {
		_ = os.Remove(target + partSuffix)
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}

// CopyIntoTask copies a local file or folder into the container of a running task. A
// target that is a folder, or ends with a slash, gets a file or folder of the same name.
// It is relative to the sandbox, or absolute. Folders need tar in the container.
func (c *Client) CopyIntoTask(ctx context.Context, task, source, target string, o CopyOptions) error {
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return c.copyFolderInto(ctx, task, source, target, o)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", source)
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	q := url.Values{"path": {target}, "name": {filepath.Base(source)}, "mode": {strconv.FormatUint(uint64(info.Mode().Perm()), 8)}}
	body := &requestBody{size: info.Size(), contentType: "application/octet-stream", open: func() io.Reader {
		return &progressReader{io.NewSectionReader(f, 0, info.Size()), func(n int64) { o.report(n, info.Size()) }}
	}}
	return c.putIntoTask(ctx, sandboxURL(task, "file", q), body)
}

// putIntoTask sends a body that a command in the task's container writes.
func (c *Client) putIntoTask(ctx context.Context, url string, body *requestBody) error {
	res, err := c.sendBody(ctx, c.timeouts.Leader, http.MethodPut, url, body, nil)
	if err != nil {
		return err
	}
	return decodeResponse(res, nil)
}

// copyFolderInto sends a folder as a tar. In a folder of the container it becomes one of
// the same name.
func (c *Client) copyFolderInto(ctx context.Context, task, source, target string, o CopyOptions) error {
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	if absolute, err := filepath.Abs(source); err == nil {
		source = absolute // "." has no name
	}
	if !path.IsAbs(target) && (path.Clean("./"+target) == "." || strings.HasSuffix(target, "/")) || path.IsAbs(target) && strings.HasSuffix(target, "/") {
		target = path.Join(target, filepath.Base(source))
	}
	var packing sync.WaitGroup
	defer packing.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := &requestBody{size: -1, contentType: "application/x-tar", open: func() io.Reader {
		read, write := io.Pipe()
		context.AfterFunc(ctx, func() { _ = read.Close() }) // otherwise a body that is not read to its end blocks the writer
		packing.Go(func() {
			out := tar.NewWriter(write)
			err := out.AddFS(root.FS())
			if err == nil {
				err = out.Close()
			}
			if err != nil {
				cancel(fmt.Errorf("pack %s: %w", source, err))
			}
			_ = write.CloseWithError(err) // it never fails
		})
		return &progressReader{read, func(n int64) { o.report(n, 0) }}
	}}
	err = c.putIntoTask(ctx, sandboxURL(task, "files", url.Values{"path": {target}}), body)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}
