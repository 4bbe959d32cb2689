package notifier

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// mailServer is an SMTP server that keeps what it receives.
type mailServer struct {
	*smtp.Server
	addr string
	// mails has the accepted mails, as "RECIPIENT\nMESSAGE".
	mails chan string
	// mechanism is that of logins.
	mechanism string

	mu sync.Mutex
	// reject is the answer to the next recipients, nil to accept them.
	reject error
	// logins are the users that have logged in, each after the mechanism and a space.
	logins []string
}

func (m *mailServer) setReject(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reject = err
}

// NewSession implements smtp.Backend.
func (m *mailServer) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: m}, nil
}

// mailSession is one connection. It has the methods of smtp.Session.
type mailSession struct {
	server *mailServer
	to     string
}

func (s *mailSession) AuthMechanisms() []string { return []string{s.server.mechanism} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	if s.server.mechanism == sasl.Login {
		return &loginServer{check: s.login}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return s.login(user, password) }), nil
}

// login accepts one password.
func (s *mailSession) login(user, password string) error {
	if password != "mail password" {
		return smtp.ErrAuthFailed
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.logins = append(s.server.logins, s.server.mechanism+" "+user)
	return nil
}

// loginServer is the server's side of the mechanism LOGIN, which package sasl does not have.
type loginServer struct {
	check func(user, password string) error
	// answers are the user and the password.
	answers []string
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	if response != nil {
		l.answers = append(l.answers, string(response))
	}
	if len(l.answers) == 2 {
		return nil, true, l.check(l.answers[0], l.answers[1])
	}
	return []byte([]string{"Username:", "Password:"}[len(l.answers)]), false, nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.to = to
	return s.server.reject
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		s.server.mails <- s.to + "\n" + string(text)
	}
	return err
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

// newMailServer starts a server on a loopback address. Without a certificate it offers no STARTTLS. With implicitTLS
// connections start with TLS.
func newMailServer(t *testing.T, certificate *tls.Certificate, implicitTLS bool) *mailServer {
	t.Helper()
	m := &mailServer{mails: make(chan string, 100), mechanism: sasl.Plain}
	m.Server = smtp.NewServer(m)
	m.Domain, m.ErrorLog = "localhost", log.New(io.Discard, "", 0)
	if certificate != nil {
		m.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr().String()
	if implicitTLS {
		l = tls.NewListener(l, m.TLSConfig)
	}
	go func() { _ = m.Serve(l) }() // it ends with Close
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *mailServer) await(t *testing.T) string {
	t.Helper()
	select {
	case mail := <-m.mails:
		return mail
	case <-time.After(time.Minute):
		t.Fatal("no mail arrived")
		return ""
	}
}

// deliveryTest is a notifier with a scheduler's state and read model.
type deliveryTest struct {
	t        *testing.T
	notifier *Notifier
	model    *readmodel.Model

	mu    sync.Mutex
	state *sched.State
	later time.Duration
	jobs  int
	// outcomes has the recorded outcomes.
	outcomes chan notification.Result
}

// newDeliveryTest starts a notifier with the settings of a file.
func newDeliveryTest(t *testing.T, settings string) *deliveryTest {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notifications.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := LoadSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &deliveryTest{t: t, model: readmodel.New(journal.JournalContents{}), outcomes: make(chan notification.Result, 100)}
	policy := sched.Policy{NotificationTargets: s.Targets}
	d.state = sched.New(sched.SchedulerSettings{Policy: policy}, sched.RecoveredState{})
	d.notifier = New(s, NotifierConfig{timeout: time.Second, Clock: d.now, Log: frameworktest.DiscardLog()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.notifier.Deliver(ctx, d.model, noErrorOutput, d.apply) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return d
}

// noErrorOutput is an ErrorReader for tasks that wrote nothing.
func noErrorOutput(context.Context, *notification.Notification) []string { return nil }

func (d *deliveryTest) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.later)
}

// apply applies an event and records its changes.
func (d *deliveryTest) apply(e sched.Event) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Step(now, e)
	c := d.state.TakeChanges()
	d.model.ApplyRecorded(journal.Change{Jobs: c.Jobs, Tasks: c.Tasks, Documents: c.Documents}, c.Transitions, c.LateEnds, c.Shared)
	if attempted, ok := e.(sched.NotificationsAttempted); ok {
		for _, r := range attempted.Results {
			d.outcomes <- r
		}
	}
}

// endJobs makes jobs end, which notify a target.
func (d *deliveryTest) endJobs(n int, to string) {
	for range n {
		d.jobs++
		spec := frameworktest.JobSpec(fmt.Sprint("job-", d.jobs), 1, 0)
		spec.Notify = []job.NotificationRule{{To: to}}
		d.apply(sched.SubmitJob{Spec: spec})
		d.apply(sched.KillJob{Job: spec.Name})
	}
}

func (d *deliveryTest) awaitOutcome() notification.Result {
	d.t.Helper()
	select {
	case r := <-d.outcomes:
		return r
	case <-time.After(time.Minute):
		d.t.Fatal("no outcome")
		return notification.Result{}
	}
}

// certificateOf returns a certificate for loopback addresses and the file that has it.
func certificateOf(t *testing.T) (*tls.Certificate, string) {
	t.Helper()
	certFile, keyFile := mesostest.WriteCertificate(t, t.TempDir())
	c, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &c, certFile
}

// TestMailByAuthenticatedTLS: a mail reaches a real server over STARTTLS and over a connection that starts with TLS, after a login
// by each mechanism, with the facts of its event. A wrong password is reported and tried again.
func TestMailByAuthenticatedTLS(t *testing.T) {
	certificate, caFile := certificateOf(t)
	for _, c := range []struct {
		scheme, mechanism string
	}{{"", sasl.Plain}, {"smtp://", sasl.Login}, {"smtps://", sasl.Plain}, {"smtps://", sasl.Login}} {
		t.Run(c.scheme+c.mechanism, func(t *testing.T) {
			m := newMailServer(t, certificate, c.scheme == "smtps://")
			m.mechanism = c.mechanism
			credential := filepath.Join(t.TempDir(), "credential")
			settings := fmt.Sprintf("mail: {server: '%s%s', from: gpu@example.org, domains: [example.org], credential_file: %s, ca_file: %s}",
				c.scheme, m.addr, credential, caFile)
			for _, password := range []string{"wrong", "mail password"} {
				if err := os.WriteFile(credential, []byte("gpu:"+password+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				d := newDeliveryTest(t, settings)
				d.endJobs(1, "mailto:alice@example.org")
				r := d.awaitOutcome()
				if password == "wrong" {
					if r.Delivered || r.Next.IsZero() || !strings.Contains(r.Error, "535") || strings.Contains(r.Error, password) || len(m.logins) > 0 {
						t.Errorf("a wrong password: outcome %+v, logins %q", r, m.logins)
					}
					continue
				}
				if !r.Delivered {
					t.Fatalf("outcome %+v", r)
				}
				if mail := m.await(t); !strings.HasPrefix(mail, "alice@example.org\n") ||
					!strings.Contains(mail, "Subject: [mesos-gpu] job-1@1 was killed\r\n") ||
					!strings.Contains(mail, "State:     KILLED") || !strings.Contains(mail, "Message-ID: <"+r.ID+"@example.org>") {
					t.Errorf("mail\n%s", mail)
				}
				if len(m.logins) != 1 || m.logins[0] != c.mechanism+" gpu" {
					t.Errorf("logins %q", m.logins)
				}
				if f := d.notifier.Figures(); f.Mails.Sent != 1 || f.Mails.Failed != 0 {
					t.Errorf("figures %+v", f)
				}
			}
		})
	}
}

// TestPasswordNeedsTLS: without STARTTLS the password is not sent, and without a login a mail to a loopback server is.
func TestPasswordNeedsTLS(t *testing.T) {
	m := newMailServer(t, nil, false)
	m.AllowInsecureAuth = true
	credential := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(credential, []byte("gpu:mail password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("mail: {server: '%s', from: gpu@example.org, domains: [example.org]", m.addr)
	d := newDeliveryTest(t, settings+", credential_file: "+credential+"}")
	d.endJobs(1, "mailto:alice@example.org")
	if r := d.awaitOutcome(); r.Delivered || r.Next.IsZero() || !strings.Contains(r.Error, "the password is not sent") || len(m.logins) > 0 {
		t.Errorf("outcome %+v, logins %v", r, m.logins)
	}
	d = newDeliveryTest(t, settings+"}")
	d.endJobs(1, "mailto:alice@example.org")
	if r := d.awaitOutcome(); !r.Delivered {
		t.Errorf("outcome %+v", r)
	}
	for addr, want := range map[string]bool{"127.0.0.1:25": true, "[::1]:25": true, "10.0.0.1:25": false, "203.0.113.7:25": false} {
		if a, err := net.ResolveTCPAddr("tcp", addr); err != nil || isLoopback(a) != want {
			t.Errorf("%s: %v, want that TLS is optional there: %t", addr, err, want)
		}
	}
}

// TestMailFailures: an unknown recipient is given up, a busy server is tried again, and a certificate of another
// authority ends the connection.
func TestMailFailures(t *testing.T) {
	m := newMailServer(t, nil, false)
	d := newDeliveryTest(t, fmt.Sprintf("mail: {server: '%s', from: gpu@example.org, domains: ['*']}\nretry: {first: 10ms, longest: 20ms}", m.addr))
	m.setReject(&smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted"})
	d.endJobs(1, "mailto:alice@example.org")
	if r := d.awaitOutcome(); r.Next.IsZero() || !strings.Contains(r.Error, "451") {
		t.Errorf("busy: %+v", r)
	}
	m.setReject(nil)
	m.await(t)
	for !d.awaitOutcome().Delivered {
	}
	m.setReject(&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"})
	d.endJobs(1, "mailto:unknown@example.org")
	if r := d.awaitOutcome(); !r.Next.IsZero() || !strings.Contains(r.Error, "550") {
		t.Errorf("unknown recipient: %+v", r)
	}
	certificate, _ := certificateOf(t)
	other := newMailServer(t, certificate, false)
	d = newDeliveryTest(t, fmt.Sprintf("mail: {server: '%s', from: gpu@example.org, domains: ['*']}", other.addr))
	d.endJobs(1, "mailto:alice@example.org")
	if r := d.awaitOutcome(); r.Delivered || r.Next.IsZero() || !strings.Contains(r.Error, "certificate") {
		t.Errorf("another certificate: %+v", r)
	}
}

// TestManyMailsAreOneDigest: after the limit of a recipient, what is pending is one mail, within the limit.
func TestManyMailsAreOneDigest(t *testing.T) {
	m := newMailServer(t, nil, false)
	d := newDeliveryTest(t, fmt.Sprintf("mail: {server: '%s', from: gpu@example.org, domains: ['*'], per_hour: 3}", m.addr))
	for range 2 {
		d.endJobs(1, "mailto:alice@example.org")
		m.await(t)
		d.awaitOutcome()
	}
	d.mu.Lock()
	d.later = 2 * time.Hour
	d.mu.Unlock()
	for range 3 {
		d.endJobs(1, "mailto:bob@example.org")
		m.await(t)
		if r := d.awaitOutcome(); !r.Delivered {
			t.Fatalf("outcome %+v", r)
		}
	}
	d.endJobs(5, "mailto:bob@example.org") // the limit is reached
	if list := d.model.ListNotifications(); len(list) != 5 || len(m.mails) > 0 {
		t.Fatalf("%d are pending, %d were sent", len(list), len(m.mails))
	}
	d.mu.Lock()
	d.later += notification.RateWindow
	d.mu.Unlock()
	d.notifier.Configure(d.notifier.settings)
	got := map[string]int{}
	for range 5 {
		if r := d.awaitOutcome(); !r.Delivered {
			t.Fatalf("outcome %+v", r)
		}
	}
	for len(m.mails) > 0 {
		mail := m.await(t)
		_, subject, _ := strings.Cut(mail, "Subject: ")
		subject, _, _ = strings.Cut(subject, "\r\n")
		got[subject]++
	}
	if len(got) != 3 || got["[mesos-gpu] 3 events of jobs"] != 1 {
		t.Errorf("mails: %v, want two of one event and one of three", got)
	}
}

// TestHangingReceiver: a receiver that does not answer in time is tried again, and does not delay another one.
func TestHangingReceiver(t *testing.T) {
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // so that the server notices the end of the connection
		<-q.Context().Done()
	}))
	defer hang.Close()
	ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ok.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDeliveryTest(t, fmt.Sprintf("webhooks: {hosts: [%q, %q], secret_file: %s}", strings.TrimPrefix(hang.URL, "http://"),
		strings.TrimPrefix(ok.URL, "http://"), secret))
	d.endJobs(5, hang.URL+"/path-secret")
	d.endJobs(5, ok.URL+"/path")
	for i := range 5 {
		if r := d.awaitOutcome(); !r.Delivered {
			t.Errorf("outcome %d: %+v", i, r)
		}
	}
	for range 5 {
		if r := d.awaitOutcome(); r.Delivered || r.Next.IsZero() || r.Error != "it does not answer in time" {
			t.Errorf("outcome %+v", r)
		}
	}
}

// TestNameOfInternalAddress: a name that the list covers by a star may not resolve to an address that is not public.
func TestNameOfInternalAddress(t *testing.T) {
	connect := func(hosts job.FetchHosts) error {
		w := newWebhookClient(&Settings{Targets: notification.AllowedTargets{WebhookHosts: hosts}}, time.Minute, time.Now)
		_, err := w.client.Get("http://127.0.0.1:1/")
		return describeRequestError(err)
	}
	for _, hosts := range []job.FetchHosts{nil, {"*"}, {"*.example.org"}} {
		if err := connect(hosts); !errors.As(err, new(*permanentError)) || !errors.As(err, new(*notification.ForbiddenTargetError)) {
			t.Errorf("%v: %v", hosts, err)
		}
	}
	if err := connect(job.FetchHosts{"127.0.0.1:1"}); err == nil || errors.As(err, new(*notification.ForbiddenTargetError)) {
		t.Errorf("a host with an entry of its own: %v", err)
	}
}

// TestSettingsErrors: mistakes in the file are reported, without secrets.
func TestSettingsErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short, many, bad := write("short", "tiny-secret"), write("many", "0123456789abcdef\n0123456789abcdef\n0123456789abcdef\n"), write("bad", "no-colon-secret")
	empty := write("empty.pem", string(pem.EncodeToMemory(&pem.Block{Type: "OTHER"})))
	for text, want := range map[string]string{
		"webhook: {}":                  `line 1: unknown key "webhook"; did you mean "webhooks"?`,
		"gpu_idle: {afer: 1h}":         `line 1: unknown key "afer"; did you mean "after"?`,
		"webhooks: {hosts: ['127.1']}": "write HOST", "webhooks: {hosts: [a]}": "secret_file is missing",
		"webhooks: {secret_file: " + short + "}":                                  "11 bytes, at least 16",
		"webhooks: {secret_file: " + many + "}":                                   "3 secrets",
		"mail: {server: localhost, from: a@b}":                                    "HOST:PORT",
		"mail: {server: 'localhost:25', from: 'a b@c'}":                           "is not an address",
		"mail: {server: 'localhost:25', from: a@b, domains: ['a@b']}":             "write DOMAIN",
		"mail: {server: 'localhost:25', from: a@b, per_hour: -1}":                 "not 1 or more",
		"mail: {server: 'localhost:25', from: a@b, credential_file: " + bad + "}": "USER:PASSWORD",
		"mail: {server: 'localhost:25', from: a@b, ca_file: " + empty + "}":       "has no certificate",
		"retry: {first: 2h}":      "longest not below first",
		"retry: {attempts: -1}":   "above 0",
		"gpu_idle: {after: 0.5s}": "not 1s or more",
		"gpu_idle: {below: 5}":    "not a duty above 0 and up to 1",
		"gpu_idle: {below: .nan}": "not a duty above 0 and up to 1",
	} {
		if _, err := LoadSettings(write("settings.yaml", text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "-secret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if s, err := LoadSettings(write("settings.yaml", "")); err != nil || s.IdleGPU != notification.DefaultIdleGPURule() {
		t.Errorf("an empty file: %+v, %v", s, err)
	}
	if s, err := LoadSettings(write("settings.yaml", "gpu_idle: {after: 1h, below: 0.2}")); err != nil ||
		s.IdleGPU != (notification.IdleGPURule{After: time.Hour, Below: 0.2}) {
		t.Errorf("a rule of idle GPUs: %+v, %v", s, err)
	}
}
