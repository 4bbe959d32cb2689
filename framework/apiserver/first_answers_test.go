package apiserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
)

// largeEvents is the number of states of 1 MiB that largeStates returns.
const largeEvents = 10

// largeStates returns states of a job of each role, more than a connection holds that its client does not read.
func largeStates() *fakeBackend {
	f := &fakeBackend{whose: map[string][2]string{"train": {"research", "owner"}, "web": {"prod", ""}}}
	for range largeEvents {
		f.now = append(f.now, api.TaskEvent{Job: "train", Task: strings.Repeat("t", 1<<20)}, api.TaskEvent{Job: "web", Task: "w"})
	}
	return f
}

// watchAs returns the body of an event stream of a user. A connection with a small buffer holds little.
func watchAs(t *testing.T, url, user string, small bool) io.ReadCloser {
	t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil && small {
			err = c.(*net.TCPConn).SetReadBuffer(4096)
		}
		return c, err
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Who", user)
	res, err := (&http.Client{Transport: &http.Transport{DialContext: dial}}).Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("stream of %s: %v, %v", user, res, err)
	}
	return res.Body
}

// TestStreamsOfOneClientTakeTurns: of the streams of one client, maxFirstAnswers send the present states at a time, and the next
// one begins when one of them has sent all, or is closed. Streams of other clients are not delayed.
func TestStreamsOfOneClientTakeTurns(t *testing.T) {
	f := largeStates()
	f.changes = make(chan api.TaskEvent)
	url := serveWithPolicy(t, f, rolePolicy())
	var streams []io.ReadCloser
	for range maxFirstAnswers {
		s := watchAs(t, url, "viewer", true)
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	third, began := watchAs(t, url, "viewer", false), make(chan error, 1)
	go func() {
		_, err := io.ReadFull(third, make([]byte, 1))
		began <- err
	}()
	if _, err := io.CopyN(io.Discard, watchAs(t, url, "submitter", false), largeEvents<<20); err != nil {
		t.Fatal(err)
	}
	select {
	case <-began:
		t.Error("more streams of a client than the bound send the present states")
	default:
	}
	_ = streams[0].Close()
	if err := <-began; err != nil {
		t.Errorf("the next stream: %v", err)
	}
}

// TestStreamsShareFirstAnswers: streams whose requesters may see the same send states that were encoded once, others do not.
func TestStreamsShareFirstAnswers(t *testing.T) {
	private := rolePolicy()
	private.PrivateOutput = true
	for _, c := range []struct {
		policy *access.AccessPolicy
		users  string
		encode int32
		why    string
	}{
		{rolePolicy(), "submitter owner submitter owner", 1, "equal permissions"},
		{rolePolicy(), "viewer operator viewer root operator", 3, "different permissions"},
		{private, "submitter owner submitter", 2, "one of them reads its own output only"},
		{rolePolicy(), "stranger stranger", 2, "few states"},
	} {
		synctest.Test(t, func(t *testing.T) { // no time passes
			f, answers := largeStates(), &firstAnswers{}
			for user := range strings.FieldsSeq(c.users) {
				text := firstAnswerOf(t, answers, f, c.policy.GrantFor(access.Identity{Name: user}), request.EventQuery{})
				wantTrain, wantWeb := largeEvents, 0
				switch user {
				case "root":
					wantWeb = largeEvents
				case "stranger":
					wantTrain, wantWeb = 0, largeEvents
				}
				if train, web := strings.Count(text, `"job":"train"`), strings.Count(text, `"job":"web"`); train != wantTrain || web != wantWeb {
					t.Errorf("%s, %s: %d states of train and %d of web, want %d and %d", c.why, user, train, web, wantTrain, wantWeb)
				}
			}
			if n := f.statesRead.Load(); n != c.encode {
				t.Errorf("%s: the states were encoded %d times, want %d", c.why, n, c.encode)
			}
			time.Sleep(sharedAnswerAge)
		})
	}
}

// firstAnswerOf returns what a stream of all jobs begins with.
func firstAnswerOf(t *testing.T, answers *firstAnswers, f *fakeBackend, who *access.Grant, q request.EventQuery) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	var text bytes.Buffer
	position, err := answers.send(r.WithContext(apihttp.WithGrant(r.Context(), who)), &ReadBackend{Jobs: f, Events: f}, q, func(part []byte) error {
		text.Write(part)
		return nil
	})
	if err != nil || position != afterStates {
		t.Errorf("continues after %q, %v", position, err)
	}
	return text.String()
}

// TestSharedAnswersExpire: the states are read again after sharedAnswerAge, or when a stream could not continue after them, and
// their memory is free when no stream sends them.
func TestSharedAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, answers := largeStates(), &firstAnswers{}
		expectReads := func(want int32, when string) {
			t.Helper()
			if n := f.statesRead.Load(); n != want {
				t.Errorf("%s: the states were read %d times, want %d", when, n, want)
			}
		}
		text := firstAnswerOf(t, answers, f, nil, request.EventQuery{})
		if again := firstAnswerOf(t, answers, f, nil, request.EventQuery{}); again != text || len(text) < largeEvents<<20 {
			t.Errorf("the second stream has %d bytes, the first %d", len(again), len(text))
		}
		expectReads(1, "two streams")
		firstAnswerOf(t, answers, f, nil, request.EventQuery{LiveOnly: true})
		expectReads(2, "a stream of live tasks")
		answers.mu.Lock()
		answers.shared[firstAnswerKey{}].position = "too old"
		answers.mu.Unlock()
		firstAnswerOf(t, answers, f, nil, request.EventQuery{})
		expectReads(3, "the events since are no longer stored")
		answers.mu.Lock()
		if answers.bytes < 2*largeEvents<<20 || answers.bytes > (2*largeEvents+1)<<20 {
			t.Errorf("%d bytes are counted for two answers of %d MiB", answers.bytes, largeEvents)
		}
		answers.mu.Unlock()
		time.Sleep(sharedAnswerAge)
		synctest.Wait()
		answers.mu.Lock()
		if answers.bytes != 0 || len(answers.shared) != 0 {
			t.Errorf("%d answers of %d bytes are left", len(answers.shared), answers.bytes)
		}
		answers.mu.Unlock()
		firstAnswerOf(t, answers, f, nil, request.EventQuery{})
		expectReads(4, "after the age")
	})
}

// TestFirstAnswersHaveBoundedMemory: while the encoded states take maxSharedAnswers, a stream gets them in parts.
func TestFirstAnswersHaveBoundedMemory(t *testing.T) {
	f, answers := largeStates(), &firstAnswers{}
	want := firstAnswerOf(t, answers, f, nil, request.EventQuery{})
	full := &firstAnswers{bytes: maxSharedAnswers}
	if text := firstAnswerOf(t, full, f, nil, request.EventQuery{}); text != want || full.bytes != maxSharedAnswers || len(full.shared) != 0 {
		t.Errorf("got %d bytes of text, %d are counted, %d answers are shared", len(text), full.bytes, len(full.shared))
	}
}
