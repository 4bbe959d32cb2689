package volumemgr

import (
	"context"
	"io"
)

// Progress is told, while files are read, of each further part: a link costs
// no reading and is not told of.
type Progress func(bytes int64)

// progressReader ends with its context and tells how far it is.
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
