package mesosapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gogo/protobuf/proto"
)

// HeaderMessageContentType is the media type of the messages in a RecordIO
// body.
const HeaderMessageContentType = "Message-Content-Type"

// maxRecord limits the size of one call of a stream in bytes.
const maxRecord = 4 << 20

// IsCallStream reports whether the request's body is a RecordIO stream of
// calls.
func IsCallStream(r *http.Request) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.Method == http.MethodPost && media == RecordIO
}

// CallReader reads the calls that a request streams.
type CallReader struct {
	in    *bufio.Reader
	media string
}

// NewCalls checks the headers. Its errors are *StatusError values: 400 or 415.
func NewCalls(r *http.Request) (*CallReader, error) {
	media := r.Header.Get(HeaderMessageContentType)
	switch media {
	case Protobuf, JSON:
		return &CallReader{bufio.NewReader(r.Body), media}, nil
	case "":
		return nil, Errorf(http.StatusBadRequest, "expecting '%s' to be set for streaming requests", HeaderMessageContentType)
	}
	return nil, Errorf(http.StatusUnsupportedMediaType, "expecting '%s' of %s or %s", HeaderMessageContentType, JSON, Protobuf)
}

// Next reads the next call. It returns io.EOF at the end of the body.
func (c *CallReader) Next(call proto.Message) error {
	line, err := c.in.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("read the length of a call: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 32)
	if err != nil || n > maxRecord {
		return fmt.Errorf("read the length of a call: %q is no number up to %d", line, maxRecord)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("read a call of %d bytes: %w", n, err)
	}
	if c.media == JSON {
		err = json.Unmarshal(body, call)
	} else {
		err = proto.Unmarshal(body, call)
	}
	if err != nil {
		return fmt.Errorf("parse a call of %d bytes: %w", n, err)
	}
	return nil
}
