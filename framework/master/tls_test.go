package master

import (
	"context"
	"strings"
	"testing"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
)

// TestTLS checks that the client uses https for the leader, although the redirect has no scheme, and for agents,
// although offers say http.
func TestTLS(t *testing.T) {
	for name, mutual := range map[string]bool{"server": false, "both sides": true} {
		t.Run(name, func(t *testing.T) {
			leader := mesostest.NewCluster(t, 1, mesostest.WithTLS(mutual))
			follower := mesostest.NewMaster(t, mesostest.WithTLS(mutual))
			follower.Leader = leader.URL()
			tls := &TLSFiles{CAFile: leader.CAFile(t)} // httptest's certificate, the same for both masters
			if mutual {
				tls.CertFile, tls.KeyFile = mesostest.WriteCertificate(t, t.TempDir())
			}
			r := startClient(t, ConnectionConfig{Master: strings.TrimPrefix(follower.URL(), "https://"), TLS: tls})
			offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
			if offer.AgentURL != leader.AgentURL() {
				t.Errorf("agent %s, want %s", offer.AgentURL, leader.AgentURL())
			}
			r.PostOperation(sched.SuppressOffers{})
			leader.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
			leader.SetFile("/f", "text")
			agents, err := r.ListAgents(context.Background())
			if err != nil || agents[0].URL != leader.AgentURL() {
				t.Fatalf("agents %+v, %v", agents, err)
			}
			if data, _, err := r.ReadFile(context.Background(), agents[0].URL, "/f", 0, 10); err != nil || string(data) != "text" {
				t.Errorf("file %q, %v", data, err)
			}
		})
	}
}

func TestTLSRejectsUntrustedMasters(t *testing.T) {
	m := mesostest.NewMaster(t, mesostest.WithTLS(false))
	cert, key := mesostest.WriteCertificate(t, t.TempDir())
	for name, tt := range map[string]struct {
		tls  TLSFiles
		want string
	}{
		"an unknown authority": {TLSFiles{CAFile: cert}, "certificate signed by unknown authority"},
		"another host's name":  {TLSFiles{CAFile: m.CAFile(t), ServerName: "master.example"}, "not master.example"},
	} {
		r := startClient(t, ConnectionConfig{Master: m.URL(), TLS: &tt.tls})
		if _, err := r.ListAgents(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		r.stop()
	}
	for name, tls := range map[string]*TLSFiles{
		"give both files or neither":                {CertFile: cert},
		"has no PEM certificate in":                 {CAFile: writeFile(t, "nonsense", 0o600)},
		"read TLS authorities":                      {CAFile: "/nowhere"},
		"read TLS certificate " + key + " with key": {CertFile: key, KeyFile: cert},
	} {
		cfg := ConnectionConfig{Master: m.URL(), TLS: tls, ExecutorPath: "/x", Log: newDiscardLogger()}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}

// TestIPv6 covers a master on ::1 that redirects without brackets, its agents and their files.
func TestIPv6(t *testing.T) {
	c := mesostest.NewCluster(t, 1, mesostest.ListenIPv6())
	c.SetFile("/f", "text")
	r := startClient(t, ConnectionConfig{Master: c.URL()})
	offer := nextEvent[sched.OffersReceived](t, r).Offers[0]
	agents, err := r.ListAgents(context.Background())
	if err != nil || len(agents) != 1 || agents[0].URL != offer.AgentURL || agents[0].URL != c.AgentURL() {
		t.Fatalf("offer of %s, agents %+v, %v, want %s", offer.AgentURL, agents, err, c.AgentURL())
	}
	if data, _, err := r.ReadFile(context.Background(), offer.AgentURL, "/f", 0, 10); err != nil || string(data) != "text" {
		t.Errorf("file %q, %v", data, err)
	}
}
