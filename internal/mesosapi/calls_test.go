package mesosapi

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mesos/mesos-go/api/v1/lib/agent"
)

func streamed(body, media string) (*CallReader, error) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", RecordIO)
	if media != "" {
		r.Header.Set(HeaderMessageContentType, media)
	}
	if !IsCallStream(r) {
		return nil, errors.New("it does not stream")
	}
	return NewCalls(r)
}

func TestCallsOfAStream(t *testing.T) {
	message, err := (&agent.Call{Type: agent.Call_GET_HEALTH}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ media, first string }{
		{Protobuf, string(message)},
		{JSON, `{"type":"GET_HEALTH"}`},
	} {
		body := fmt.Sprintf("%d\n%s", len(test.first), test.first)
		calls, err := streamed(body+body, test.media)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var call agent.Call
			if err := calls.Next(&call); err != nil || call.Type != agent.Call_GET_HEALTH {
				t.Errorf("%s: read %v, %v", test.media, call.Type, err)
			}
		}
		if err := calls.Next(&agent.Call{}); err != io.EOF {
			t.Errorf("%s: at the end: %v, want EOF", test.media, err)
		}
	}
}

func TestCallsThatCannotBeRead(t *testing.T) {
	for media, want := range map[string]string{"": "400 Bad Request: expecting 'Message-Content-Type'", "text/plain": "415 "} {
		if _, err := streamed("", media); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("messages of %q: %v, want %s", media, err, want)
		}
	}
	for body, want := range map[string]string{
		"x\n{}": "is no number", "99999999\n{}": "is no number", "5": "read the length", "5\n{}": "read a call of 5 bytes", "2\n{]": "parse a call",
	} {
		calls, err := streamed(body, JSON)
		if err != nil {
			t.Fatal(err)
		}
		if err := calls.Next(&agent.Call{}); err == nil || err == io.EOF || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
}
