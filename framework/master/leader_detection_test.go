package master

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// roundTripper is a function that answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOperatorCallsPassDeadMasters: a client without a subscription, as a standby has it, finds the leader while the masters
// before it in the list refuse connections or do not answer. It then requests the leader from the master that answered.
func TestOperatorCallsPassDeadMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, requested := map[string]bool{"m1:5050": true, "m2:5050": true}, ""
		c, err := New(ConnectionConfig{
			Master: "m1,m2,m3", ExecutorPath: "/x", Log: newDiscardLogger(), Name: "test", Roles: []string{"*"},
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				requested += r.URL.Hostname() + " "
				switch {
				case !down[r.URL.Host]:
					w := httptest.NewRecorder()
					w.Header().Set("Location", "//leader:5050")
					w.WriteHeader(http.StatusTemporaryRedirect)
					return w.Result(), nil
				case r.URL.Hostname() == "m1":
					return nil, errors.New("connection refused")
				default:
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		for _, want := range []string{"m1 m2 m3 ", "m3 "} {
			requested = ""
			if leader, err := c.CurrentLeader(t.Context()); err != nil || leader != "http://leader:5050" || requested != want {
				t.Errorf("the leader is %q, %v, after requests to %s, want those to %s", leader, err, requested, want)
			}
		}
		if took := time.Since(began); took != leaderTimeout/3 {
			t.Errorf("a master that does not answer delays the calls by %s", took)
		}
		down["m1:5050"], down["m3:5050"], requested = false, true, ""
		if leader, err := c.CurrentLeader(t.Context()); err != nil || requested != "m3 m1 " {
			t.Errorf("the leader is %q, %v, after requests to %s", leader, err, requested)
		}
		down["m1:5050"], began = true, time.Now()
		_, err = c.CurrentLeader(t.Context())
		if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "m3:5050") || time.Since(began) > leaderTimeout {
			t.Errorf("without any master: %v after %s", err, time.Since(began))
		}
	})
}
