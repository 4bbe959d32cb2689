package master

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxEventBytes bounds one event of the subscription. mesos-go's own reader is
// limited to 4 MiB, which the offers of some thousand agents with inventories
// exceed.
const maxEventBytes = 32 << 20

// recordReader reads RecordIO: the length in decimal, a newline, and that many
// bytes.
type recordReader struct {
	// in is the body of the response; buf has the last record and is reused for the next one.
	in  *bufio.Reader
	buf []byte
}

func newRecordReader(r io.Reader) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(r, 64<<10)}
}

// readRecord decodes the next record. It returns io.EOF at the end of the
// stream.
func (r *recordReader) readRecord(into protoUnmarshaler) error {
	line, err := r.in.ReadSlice('\n')
	if len(line) == 0 && (err == io.EOF || err == io.ErrUnexpectedEOF) { // the latter after a crash of the peer
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("read the length of the next event: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 63)
	switch {
	case err != nil:
		return fmt.Errorf("read the length of the next event: %w", err)
	case n > maxEventBytes:
		return fmt.Errorf("an event has %d bytes, at most %d are read", n, maxEventBytes)
	case uint64(cap(r.buf)) < n:
		r.buf = make([]byte, n)
	}
	if _, err := io.ReadFull(r.in, r.buf[:n]); err != nil {
		return fmt.Errorf("read an event of %d bytes: %w", n, err)
	}
	if err := into.Unmarshal(r.buf[:n]); err != nil {
		return fmt.Errorf("decode an event of %d bytes: %w", n, err)
	}
	return nil
}
