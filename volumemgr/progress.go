package volumemgr

import (
	"context"
	"io"
)

// Progress is called with the number of bytes of each part that is read. Hard
// links are not read and not reported.
type Progress func(bytes int64)

// progressReader returns a reader that reports progress and stops with ctx.
func (s Store) progressReader(ctx context.Context, in io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := in.Read(p)
		if s.Progress != nil && n > 0 {
			s.Progress(int64(n))
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
