package master

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

func TestHeartbeatWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		w := newHeartbeatWatchdog(time.Minute, cancel)
		defer w.stop()
		time.Sleep(59 * time.Second)
		w.suspend()
		w.setInterval(15)
		time.Sleep(time.Hour) // the client is busy: the master must not be blamed
		w.restart()
		time.Sleep(74 * time.Second)
		w.restart()
		time.Sleep(74 * time.Second)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("the watchdog expired although the master sent heartbeats")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if context.Cause(ctx) != errMasterSilent {
			t.Errorf("after 5 missed heartbeats: %v", context.Cause(ctx))
		}
	})
}

func TestReconnectBackoff(t *testing.T) {
	half := func() float64 { return 0.5 }
	cfg := ConnectionConfig{random: half}
	cfg.setDefaults()
	for tries, want := range map[int]time.Duration{
		0:    375 * time.Millisecond,
		1:    750 * time.Millisecond,
		4:    6 * time.Second,
		5:    11250 * time.Millisecond,
		1000: 11250 * time.Millisecond,
	} {
		if got := cfg.backoff(tries); got != want {
			t.Errorf("wait(%d) = %s, want %s", tries, got, want)
		}
	}
	cfg.random = func() float64 { return 0.999999 }
	if got := cfg.backoff(99); got > 15*time.Second {
		t.Errorf("wait of %s is above the cap", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	log := logrus.New()
	good := ConnectionConfig{Master: "http://m:5050", ExecutorPath: "/x", Log: log}
	for name, change := range map[string]func(*ConnectionConfig){
		"no master given": func(c *ConnectionConfig) { c.Master = "" },
		"is not a URL":    func(c *ConnectionConfig) { c.Master = "ftp://m:5050" },
		"is not absolute": func(c *ConnectionConfig) { c.ExecutorPath = "mesos-gpu" },
		"no log given":    func(c *ConnectionConfig) { c.Log = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestRedirectTarget(t *testing.T) {
	for location, want := range map[string]string{
		"//10.0.0.2:5050":               "http://10.0.0.2:5050",
		"https://master.example/":       "https://master.example",
		"http://10.0.0.2:5050/redirect": "http://10.0.0.2:5050",
	} {
		if got, err := redirectTarget("http://10.0.0.1:5050", location); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", location, got, err)
		}
	}
	for _, location := range []string{"", "http://%zz"} {
		if got, err := redirectTarget("http://10.0.0.1:5050", location); err == nil {
			t.Errorf("%q leads to %q", location, got)
		}
	}
}
