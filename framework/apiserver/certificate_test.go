package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestCertificateReloads checks that a new pair is used for the next connection, and that
// an invalid one is ignored.
func TestCertificateReloads(t *testing.T) {
	dir := t.TempDir()
	cert, key := mesostest.WriteCertificate(t, dir)
	log, said := logrus.New(), &bytes.Buffer{}
	log.SetOutput(said)
	c, err := LoadCertificate(cert, key, log)
	if err != nil {
		t.Fatal(err)
	}
	served := func() string { return string(c.currentPair().Certificate[0]) }
	first := served()
	if served() != first || said.Len() > 0 {
		t.Errorf("an unchanged file was reloaded: %s", said)
	}
	later := time.Now()
	change := func(path string) { // sets the time explicitly, because file systems may have coarse times
		later = later.Add(time.Second)
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	change(cert)
	if served() != first || !strings.Contains(said.String(), "is not reloaded") {
		t.Errorf("invalid file: log %s", said)
	}
	said.Reset()
	if served() != first || said.Len() > 0 {
		t.Errorf("the error is logged at each connection: %s", said)
	}
	mesostest.WriteCertificate(t, dir)
	change(cert)
	change(key)
	if served() == first {
		t.Errorf("the old certificate is still served: %s", said)
	}
	if _, err := LoadCertificate(filepath.Join(dir, "none"), key, log); err == nil {
		t.Error("the certificate was not loaded")
	}
}

// TestStreamsOverHTTP2 checks events over HTTP/2, which browsers use with TLS: they arrive
// immediately, and the stream may exceed the write timeout.
func TestStreamsOverHTTP2(t *testing.T) {
	cert, key := mesostest.WriteCertificate(t, t.TempDir())
	c, err := LoadCertificate(cert, key, discardLogger())
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBackend{changes: make(chan api.TaskEvent, 1)}
	log, logged := logrustest.NewNullLogger()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, tls.NewListener(l, c.TLSConfig()), NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()), log)
	}()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the test does not verify the server
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr().String() + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	read := func() string {
		b := make([]byte, 4096)
		n, err := res.Body.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	if got := read(); res.ProtoMajor != 2 || !strings.Contains(got, string(job.Waiting)) {
		t.Errorf("%s: %s", res.Proto, got)
	}
	f.changes <- api.TaskEvent{Job: "train", Task: "train.0", State: job.Running}
	if got := read(); !strings.Contains(got, string(job.Running)) {
		t.Error(got)
	}
	old := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}}
	if res, err := (&http.Client{Transport: old}).Get("https://" + l.Addr().String() + "/healthz"); err == nil {
		res.Body.Close()
		t.Error("the server accepts TLS 1.1")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if e := logged.LastEntry(); e == nil || e.Level != logrus.WarnLevel || !strings.Contains(e.Message, "TLS handshake error") {
		t.Errorf("logged of the client with TLS 1.1: %+v", e)
	}
}
