package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
)

// WorkdirArchive is a packed working folder. Package framework/workdir packs folders.
type WorkdirArchive struct {
	// Digest identifies the archive: "sha256:" and its SHA-256 in hexadecimal.
	Digest string
	// Bytes is the size of the archive.
	Bytes int64
	// Open returns a reader of the archive from its start. UploadWorkdir calls it once for each attempt.
	Open func() io.Reader
}

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

// UploadWorkdir uploads a packed working folder unless the scheduler stores it already. A job whose Workdir is
// that of the result starts in a copy of the folder. uploaded is false if it was stored.
func (c *Client) UploadWorkdir(ctx context.Context, archive WorkdirArchive, o UploadOptions) (stored api.StoredWorkdir, uploaded bool, err error) {
	path := "/v1/workdirs/" + url.PathEscape(archive.Digest)
	err = c.getJSON(ctx, path, &stored)
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeWorkdirNotFound {
		return stored, false, err
	}
	body := &requestBody{archive.Open, archive.Bytes, "application/gzip"}
	if o.OnProgress != nil {
		body.open = func() io.Reader {
			return &progressReader{archive.Open(), func(sent int64) { o.OnProgress(sent, archive.Bytes) }}
		}
	}
	res, err := c.sendBody(ctx, c.timeouts.Leader, http.MethodPut, path, body, nil)
	if err != nil {
		return stored, false, err
	}
	return stored, true, decodeResponse(res, &stored)
}
