package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outageTransport refuses requests until a time, and then returns a response.
type outageTransport struct {
	until  time.Time
	answer string
}

func (o *outageTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().Before(o.until) {
		return refusingTransport{}.RoundTrip(r)
	}
	answer := o.answer
	if strings.HasSuffix(r.URL.Path, "/output") {
		answer = `{"complete":true}`
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Header: http.Header{}, Trailer: http.Header{}}, nil
}

// A lost connection is reported within 2 s, once for all streams, and so is its return. A
// short interruption, for example of a failover, is not.
func TestLostConnectionIsReportedOnce(t *testing.T) {
	for _, test := range []struct {
		outage time.Duration
		want   []string
	}{
		{500 * time.Millisecond, nil},
		{10 * time.Second, []string{"lost", "restored"}},
		{time.Hour, []string{"lost"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, err := New("http://x")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			c.http.Transport = &outageTransport{until: began.Add(test.outage), answer: "data: {\"task\":\"t.0.1.x\",\"state\":\"FINISHED\"}\n\n"}
			var got []string
			c.ObserveConnection(func(cause error) {
				if cause == nil {
					got = append(got, "restored")
					return
				}
				if got = append(got, "lost"); time.Since(began) > 2*time.Second {
					t.Errorf("reported after %s: %v", time.Since(began), cause)
				}
			})
			log := make(chan struct{})
			go func() {
				defer close(log)
				for range c.ReadTaskOutput(t.Context(), "t.0.1.x", OutputOptions{Follow: true}) {
				}
			}()
			for _, err := range c.FollowEvents(t.Context(), "t") {
				if (err == nil) != (test.outage < time.Hour) {
					t.Errorf("%v after an outage of %s", err, test.outage)
				}
				break
			}
			<-log
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// After the observer is removed no report follows.
func TestObserverIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://x")
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport = refusingTransport{}
		c.ObserveConnection(func(cause error) { t.Errorf("reported %v", cause) })
		ctx, cancel := context.WithTimeout(t.Context(), lostNoticeDelay/2)
		defer cancel()
		if _, err := c.WaitForJob(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		c.ObserveConnection(nil)
		time.Sleep(time.Minute)
	})
}
