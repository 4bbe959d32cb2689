package master

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// textMessage is a message whose encoding is its bytes.
type textMessage string

func (m *textMessage) Unmarshal(data []byte) error {
	if *m = textMessage(data); *m == "bad" {
		return errors.New("undecodable")
	}
	return nil
}

func TestRecordReader(t *testing.T) {
	for name, tt := range map[string]struct{ stream, want, err string }{
		"events, one empty":      {stream: "5\nhello0\n3\na\nb", want: "hello||a\nb"},
		"nothing":                {},
		"cut in the length":      {stream: "1\nx12", want: "x", err: "read the length of the next event"},
		"cut in the event":       {stream: "5\nhel", err: "read an event of 5 bytes"},
		"no length":              {stream: "{}\n", err: "read the length of the next event"},
		"below zero":             {stream: "-1\nx", err: "read the length of the next event"},
		"longer than any":        {stream: "33554433\n", err: "an event has 33554433 bytes, at most 33554432 are read"},
		"undecodable":            {stream: "3\nbad", err: "decode an event of 3 bytes: undecodable"},
		"a length without end":   {stream: strings.Repeat("1", 1<<20), err: "read the length of the next event"},
		"shorter after a longer": {stream: "4\nlong2\nab1\nc", want: "long|ab|c"},
	} {
		t.Run(name, func(t *testing.T) {
			in := newRecordReader(iotest.OneByteReader(strings.NewReader(tt.stream)))
			var got []string
			var err error
			for {
				var m textMessage
				if err = in.readRecord(&m); err != nil {
					break
				}
				got = append(got, string(m))
			}
			if joined := strings.Join(got, "|"); joined != tt.want {
				t.Errorf("read %q, want %q", joined, tt.want)
			}
			if tt.err == "" && err != io.EOF || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("ended with %v, want %q", err, tt.err)
			}
		})
	}
}
