package framework

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/notification"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

const webhookSecret = "a secret of enough bytes"

// webhookReceiver is an HTTP server that answers as its test says.
type webhookReceiver struct {
	*httptest.Server
	t *testing.T
	// requests has the requests in order.
	requests chan webhookRequest

	mu sync.Mutex
	// answer answers the next requests; nil accepts them.
	answer http.HandlerFunc
}

type webhookRequest struct {
	id, attempt string
	body        []byte
	facts       notification.Facts
}

func newWebhookReceiver(t *testing.T) *webhookReceiver {
	r := &webhookReceiver{t: t, requests: make(chan webhookRequest, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *webhookReceiver) setAnswer(f http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *webhookReceiver) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	at, signature, _ := strings.Cut(strings.TrimPrefix(q.Header.Get(notification.SignatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%s.%s", at, body)
	if hex.EncodeToString(mac.Sum(nil)) != signature {
		r.t.Errorf("signature %q of %s", q.Header.Get(notification.SignatureHeader), body)
	}
	one := webhookRequest{id: q.Header.Get(notification.IDHeader), attempt: q.Header.Get(notification.AttemptHeader), body: body}
	if err := json.Unmarshal(body, &one.facts); err != nil {
		r.t.Errorf("body %s: %v", body, err)
	}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	r.requests <- one
	if answer != nil {
		answer(w, q)
	}
}

// await returns the next request.
func (r *webhookReceiver) await() webhookRequest {
	r.t.Helper()
	select {
	case one := <-r.requests:
		return one
	case <-time.After(waitTimeout):
		r.t.Fatal("no webhook arrived")
		return webhookRequest{}
	}
}

// writeNotifications writes the file of --notifications with retries after milliseconds.
func writeNotifications(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "notifications.yaml")
	for name, content := range map[string]string{
		secret: webhookSecret + "\n",
		path:   strings.ReplaceAll(text, "SECRET", secret) + "retry: {first: 20ms, longest: 100ms, attempts: 1000}\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func hostOf(s *httptest.Server) string {
	return s.URL[strings.LastIndexByte(s.URL, '/')+1:]
}

// notifyingJob returns a job with a target for the events.
func notifyingJob(name, to string, on ...job.NotificationEvent) job.Spec {
	spec := frameworktest.JobSpec(name, 1, 1)
	spec.Notify = []job.NotificationRule{{To: to, On: on}}
	return spec
}

// runAndEnd submits a job and ends its task.
func runAndEnd(t *testing.T, c *mesostest.FakeCluster, in *testInstance, spec job.Spec, state mesos.TaskState, message, exit string) {
	t.Helper()
	if _, err := in.SubmitJob(longTimeout(t), spec); err != nil {
		t.Fatal(err)
	}
	view := awaitState(t, in, spec.Name, job.Running)
	c.EndTask(view.Tasks[0].ID, state, message, exit)
}

func awaitNoNotifications(t *testing.T, in *testInstance) {
	t.Helper()
	awaitCondition(t, "every notification is delivered", func() bool {
		list, err := in.ListNotifications(longTimeout(t), "")
		return err == nil && len(list) == 0
	})
}

// TestWebhooksAreRetried: a webhook is tried again with the same id and body until its receiver accepts it, whatever
// fails, and lists, metrics and errors do not have its path.
func TestWebhooksAreRetried(t *testing.T) {
	r := newWebhookReceiver(t)
	cluster := mesostest.NewCluster(t, 4)
	in := startInstance(t, cluster, SchedulerConfig{
		JournalPath:   filepath.Join(t.TempDir(), "journal.db"),
		Notifications: writeNotifications(t, fmt.Sprintf("webhooks: {hosts: [%s], secret_file: SECRET}\n", hostOf(r.Server))),
	})
	target := r.URL + "/services/path-secret?token=query-secret"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"answers500": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "internal-answer", http.StatusInternalServerError)
		}, "it answers 500"},
		"redirects": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://127.0.0.1:1/", http.StatusFound)
		}, "it answers 302: redirects are not followed"},
		"closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"noHTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte("nonsense\r\n\r\n"))
				conn.Close()
			}
		}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r.setAnswer(c.answer)
			runAndEnd(t, cluster, in, notifyingJob(name, target), mesos.TASK_FAILED, "exited with status 7", "7")
			first := r.await()
			second := r.await()
			if first.id == "" || first.id != second.id || string(first.body) != string(second.body) || first.attempt != "1" || second.attempt != "2" {
				t.Errorf("attempts %s %s and %s %s: %s, %s", first.id, first.attempt, second.id, second.attempt, first.body, second.body)
			}
			if f := first.facts; f.Event != job.NotifyFailure || f.Job != name || f.State != job.Failed || f.Reason == "" ||
				f.ExitCode == nil || *f.ExitCode != 7 || f.Ended.IsZero() {
				t.Errorf("facts %s", first.body)
			}
			awaitCondition(t, "the error is listed", func() bool {
				list, err := in.ListNotifications(longTimeout(t), api.NotificationPending)
				if err != nil || len(list) != 1 || list[0].Attempts < 1 {
					return false
				}
				if one := list[0]; one.ID != first.id || !strings.Contains(one.Error, c.want) ||
					strings.Contains(one.To+one.Error, "secret") || strings.Contains(one.Error, "internal-answer") ||
					!strings.HasSuffix(one.To, "/…") {
					t.Errorf("listed as %+v, want the error %q", one, c.want)
				}
				return true
			})
			r.setAnswer(nil)
			awaitNoNotifications(t, in)
			for len(r.requests) > 0 {
				<-r.requests
			}
		})
	}
	metrics := readMetrics(t, in)
	if !strings.Contains(metrics, `mesos_gpu_scheduler_notification_deliveries_total{channel="webhook",result="sent"} 4`) ||
		!strings.Contains(metrics, `mesos_gpu_scheduler_notifications{state="pending"} 0`) {
		t.Errorf("metrics:\n%s", metrics)
	}
}

// readMetrics returns the scheduler's metrics.
func readMetrics(t *testing.T, in *testInstance) string {
	t.Helper()
	answer, err := http.Get("http://" + in.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWebhookSurvivesTheLeader: a notification whose delivery the leader has not finished is delivered by the next one, with
// the same id.
func TestWebhookSurvivesTheLeader(t *testing.T) {
	r := newWebhookReceiver(t)
	cluster := mesostest.NewCluster(t, 4)
	cfg := SchedulerConfig{
		JournalPath:   filepath.Join(t.TempDir(), "journal.db"),
		Notifications: writeNotifications(t, fmt.Sprintf("webhooks: {hosts: [%s], secret_file: SECRET}\n", hostOf(r.Server))),
	}
	in := startInstance(t, cluster, cfg)
	r.setAnswer(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }) // until the leader is gone
	runAndEnd(t, cluster, in, notifyingJob("train", r.URL+"/hook", job.NotifyEnd), mesos.TASK_FINISHED, "", "0")
	first := r.await()
	in.stopAndWait(t)
	r.setAnswer(nil)
	in = startInstance(t, cluster, cfg)
	second := r.await()
	if first.id != second.id || string(first.body) != string(second.body) || second.facts.Event != job.NotifyEnd || second.facts.State != job.Finished {
		t.Errorf("before %s %s, after %s %s", first.id, first.body, second.id, second.body)
	}
	awaitNoNotifications(t, in)
	in.stopAndWait(t)
	in = startInstance(t, cluster, cfg)
	awaitNoNotifications(t, in)
	in.stopAndWait(t)
	if len(r.requests) > 0 {
		t.Errorf("delivered again: %s", (<-r.requests).body)
	}
}

// TestForbiddenAndFailedNotifications: a target that is not allowed is refused at the submission. One that is removed later,
// or that its receiver refuses for good, is given up; operators and the owner retry and drop it, which the audit log has.
func TestForbiddenAndFailedNotifications(t *testing.T) {
	r := newWebhookReceiver(t)
	tlsReceiver := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsReceiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsReceiver.StartTLS()
	defer tlsReceiver.Close()
	g := newGuardedConfig(t)
	cluster := mesostest.NewCluster(t, 4)
	path := writeNotifications(t, fmt.Sprintf("webhooks: {hosts: [%s, %s], secret_file: SECRET}\n", hostOf(r.Server), hostOf(tlsReceiver)))
	cfg := SchedulerConfig{
		JournalPath:   filepath.Join(t.TempDir(), "journal.db"),
		RolesFile:     writeRolesFile(t, fmt.Sprintf("research: {notify: [{to: '%s/role', on: [start]}]}\nprod: {}\n", r.URL)),
		API:           g.APIConfig,
		Notifications: path,
	}
	in := startInstance(t, cluster, cfg, client.WithTrustedCA(g.CAFile))
	alice, bob, ops, web := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in), g.clientAs(t, "web", in)
	in.Client = alice
	ctx := longTimeout(t)
	for to, want := range map[string]string{
		"http://127.0.0.1:1/":                      "allows webhooks of",
		"http://169.254.169.254/latest/meta-data/": "allows webhooks of",
		"mailto:a@example.org":                     "allows mail to no domain",
	} {
		_, err := alice.SubmitJob(ctx, notifyingJob("refused", to))
		wantProblem(t, err, http.StatusForbidden, want)
	}
	_, err := alice.SubmitJob(ctx, notifyingJob("refused", "https://user:password@example.org/"))
	wantProblem(t, err, http.StatusUnprocessableEntity, "must not contain a user or a password")
	if strings.Contains(err.Error(), "user:password") {
		t.Errorf("the error has the password: %v", err)
	}

	r.setAnswer(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/role") {
			http.Error(w, "", http.StatusGone)
		}
	})
	runAndEnd(t, cluster, in, notifyingJob("train", r.URL+"/hook"), mesos.TASK_FINISHED, "", "0")
	if one := r.await(); one.facts.Event != job.NotifyStart || one.facts.Role != "research" || one.facts.Owner != "alice" {
		t.Errorf("the role's target got %s", one.body)
	}
	r.await()
	failed := awaitFailedNotification(ctx, t, alice)
	if failed.Error != "it answers 410" || failed.Job != "train" || failed.Owner != "alice" {
		t.Errorf("failed: %+v", failed)
	}
	if list, err := web.ListNotifications(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("web sees %+v, %v", list, err)
	}
	wantProblem(t, web.DropNotification(ctx, failed.ID), http.StatusForbidden, "submit on any role")
	wantProblem(t, bob.RetryNotification(ctx, failed.ID), http.StatusForbidden, "operate on role research")
	wantProblem(t, ops.RetryNotification(ctx, "none"), http.StatusNotFound, "no notification")
	r.setAnswer(nil)
	if err := ops.RetryNotification(ctx, failed.ID); err != nil {
		t.Fatal(err)
	}
	if one := r.await(); one.id != failed.ID {
		t.Errorf("delivered %s, want %s", one.id, failed.ID)
	}
	awaitNoNotifications(t, in)

	// The certificate of this receiver is not trusted, so its notification is pending until its host is removed.
	spec := notifyingJob("untrusted", tlsReceiver.URL+"/hook", job.NotifyEnd)
	runAndEnd(t, cluster, in, spec, mesos.TASK_FINISHED, "", "0")
	awaitCondition(t, "the certificate is refused", func() bool {
		list, err := alice.ListNotifications(ctx, api.NotificationPending)
		return err == nil && len(list) == 1 && strings.Contains(list[0].Error, "certificate")
	})
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), ", "+hostOf(tlsReceiver), "", 1)), 0o600)
	}
	if err == nil {
		err = in.Reload()
	}
	if err != nil {
		t.Fatal(err)
	}
	failed = awaitFailedNotification(ctx, t, alice)
	if !strings.Contains(failed.Error, "allows webhooks of") {
		t.Errorf("failed: %+v", failed)
	}
	if err := alice.DropNotification(ctx, failed.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := ops.ListNotifications(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("after the drop: %+v, %v", list, err)
	}
	audit, err := os.ReadFile(g.AuditFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"who":"ops"`, `/retry","job":"train","role":"research","status":202`,
		`"method":"DELETE","path":"/v1/notifications/` + failed.ID + `","job":"untrusted","role":"research","status":202`,
	} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, audit)
		}
	}
	if strings.Contains(string(audit), "/hook") {
		t.Errorf("the audit log has the path of a webhook:\n%s", audit)
	}
}

func awaitFailedNotification(ctx context.Context, t *testing.T, c *client.Client) (one api.NotificationView) {
	t.Helper()
	awaitCondition(t, "a notification is given up", func() bool {
		list, err := c.ListNotifications(ctx, api.NotificationFailed)
		if err != nil || len(list) != 1 {
			return false
		}
		one = list[0]
		return true
	})
	return one
}
