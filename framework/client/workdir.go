package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/workdir"
)

// UploadOptions change how UploadWorkdir works.
type UploadOptions struct {
	// OnProgress, if not nil, is called with the bytes that were sent since the call
	// before, and with the total.
	OnProgress func(sent, total int64)
}

// progressReader reports the number of bytes of each read.
type progressReader struct {
	io.Reader
	report func(sent int64)
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.report(int64(n))
	return n, err
}

// UploadWorkdir packs a folder without the files that its .mesosgpuignore or .gitignore
// exclude, and uploads it unless the scheduler stores it already. A job whose Workdir is
// that of the result starts in a copy of the folder. uploaded is false if it was stored.
func (c *Client) UploadWorkdir(ctx context.Context, folder string, o UploadOptions) (stored api.StoredWorkdir, uploaded bool, err error) {
	packed, err := workdir.Pack(ctx, folder)
	if err != nil {
		return stored, false, err
	}
	defer packed.Close()
	path := "/v1/workdirs/" + url.PathEscape(packed.Digest)
	err = c.getJSON(ctx, path, &stored)
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeWorkdirNotFound {
		return stored, false, err
	}
	body := &requestBody{packed.Reader, packed.Bytes, "application/gzip"}
	if o.OnProgress != nil {
		body.open = func() io.Reader {
			return &progressReader{packed.Reader(), func(sent int64) { o.OnProgress(sent, packed.Bytes) }}
		}
	}
	res, err := c.sendBody(ctx, c.timeouts.Leader, http.MethodPut, path, body, nil)
	if err != nil {
		return stored, false, err
	}
	return stored, true, decodeResponse(res, &stored)
}
