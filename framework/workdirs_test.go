package framework

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/workdir"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// writeWorkdir makes a folder with one file.
func writeWorkdir(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// uploadFolder packs and uploads a folder.
func uploadFolder(t *testing.T, c *client.Client, folder string, o client.UploadOptions) (api.StoredWorkdir, bool, error) {
	t.Helper()
	packed, err := workdir.Pack(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	return c.UploadWorkdir(frameworktest.Timeout(t), client.WorkdirArchive{Digest: packed.Digest, Bytes: packed.Bytes, Open: packed.Reader}, o)
}

// httpGet returns the status and the body of a response.
func httpGet(t *testing.T, method, url string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(frameworktest.Timeout(t), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodHead && res.ContentLength <= 0 {
		t.Errorf("HEAD %s returns no size", url)
	}
	return res.StatusCode, body
}

// fetchedArchive is what an agent gets for a task's working folder.
type fetchedArchive struct {
	job.FetchArtifact
	status, headStatus, wrongStatus int
	content                         []byte
}

// fetchAtLaunch makes the cluster fetch the working folders of tasks between their launch and
// their start, as agents do.
func fetchAtLaunch(t *testing.T, c *mesostest.FakeCluster) <-chan fetchedArchive {
	fetched := make(chan fetchedArchive, 10)
	handle := c.OnCall
	c.OnCall = func(call *scheduler.Call) {
		for _, op := range call.GetAccept().GetOperations() {
			for _, task := range op.GetLaunch().GetTaskInfos() {
				launch, _, err := job.ParseLaunch(task.Data)
				if err != nil || len(launch.Fetch) == 0 {
					t.Errorf("launch %s: %+v, %v", task.Data, launch.Fetch, err)
					continue
				}
				got := fetchedArchive{FetchArtifact: launch.Fetch[0]}
				got.headStatus, _ = httpGet(t, http.MethodHead, got.URI)
				got.status, got.content = httpGet(t, http.MethodGet, got.URI)
				got.wrongStatus, _ = httpGet(t, http.MethodGet, strings.Replace(got.URI, "/workdir.tar.gz", "x/workdir.tar.gz", 1))
				fetched <- got
			}
		}
		handle(call)
	}
	return fetched
}

// TestAgentsFetchWorkdirs uploads a folder and follows it to the agent. The URL is valid while
// tasks start only. A scheduler that starts again with the same journal has the folder.
func TestAgentsFetchWorkdirs(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	fetched := fetchAtLaunch(t, c)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	folder := writeWorkdir(t, "print(1)")
	stored, uploaded, err := uploadFolder(t, in.Client, folder, client.UploadOptions{})
	if err != nil || !uploaded {
		t.Fatalf("uploaded %t, %v", uploaded, err)
	}
	sent := int64(0)
	again, uploaded, err := uploadFolder(t, in.Client, folder, client.UploadOptions{OnProgress: func(n, _ int64) { sent += n }})
	if err != nil || uploaded || again != stored || sent != 0 {
		t.Errorf("again: %+v, uploaded %t, %d bytes, %v", again, uploaded, sent, err)
	}
	spec := frameworktest.JobSpec("train", 1, 1)
	spec.Workdir = stored.Workdir
	if _, err := in.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	view := awaitState(t, in, "train", job.Running)
	got := <-fetched
	if got.status != 200 || got.headStatus != 200 || int64(len(got.content)) != stored.Bytes || workdir.CheckArchive(bytes.NewReader(got.content)) != nil {
		t.Errorf("fetched %d bytes with status %d, HEAD %d", len(got.content), got.status, got.headStatus)
	}
	if got.wrongStatus != 404 {
		t.Errorf("a wrong token: status %d", got.wrongStatus)
	}
	if !got.Extract || !got.Cache || !strings.HasSuffix(got.URI, "/workdir.tar.gz") || !strings.HasPrefix(got.URI, "http://"+in.addr) {
		t.Errorf("the URI: %+v", got.FetchArtifact)
	}
	if status, _ := httpGet(t, http.MethodGet, got.URI); status != 404 {
		t.Errorf("while the task runs: status %d", status)
	}
	if view.Spec.Workdir != stored.Workdir {
		t.Errorf("the job has the folder %q", view.Spec.Workdir)
	}
	in.stopAndWait(t)

	in = startWithJournal(t, c, path)
	if _, uploaded, err := uploadFolder(t, in.Client, folder, client.UploadOptions{}); err != nil || uploaded {
		t.Errorf("after a restart: uploaded %t, %v", uploaded, err)
	}
	spec.Name = "second"
	if _, err := in.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "second", job.Running)
	if other := <-fetched; other.status != 200 || other.URI == got.URI {
		t.Errorf("the second job's archive: status %d, %s", other.status, other.URI)
	}
}

// TestWorkdirsThatAreNotStored checks the errors for folders that the scheduler does not
// have: in a submission, in a schedule, and for a task that starts after a failover.
func TestWorkdirsThatAreNotStored(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	dir := t.TempDir()
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(dir, "journal.db"), Workdirs: filepath.Join(dir, "store")})
	ctx := frameworktest.Timeout(t)
	wantCode := func(err error, text string) {
		t.Helper()
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != 422 || p.Code != api.CodeWorkdirNotFound || !strings.Contains(p.Detail, text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	spec := frameworktest.JobSpec("train", 1, 1)
	spec.Workdir = "."
	_, err := in.SubmitJob(ctx, spec)
	wantCode(err, `workdir: "." is a folder of the client: upload it by PUT /v1/workdirs/{digest}`)
	spec.Workdir = job.WorkdirPrefix + strings.Repeat("0", 64)
	_, err = in.SubmitJob(ctx, spec)
	wantCode(err, "not in the scheduler's store "+filepath.Join(dir, "store")+": upload it, and submit the job again")
	due := spec
	due.Schedule = &job.Schedule{Cron: "0 3 * * *"}
	_, err = in.AddSchedule(ctx, due)
	wantCode(err, "upload it")

	blocker := frameworktest.JobSpec("blocker", 1, 1)
	if _, err := in.SubmitJob(ctx, blocker); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "blocker", job.Running)
	stored, _, err := uploadFolder(t, in.Client, writeWorkdir(t, "print(2)"), client.UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec.Workdir = stored.Workdir
	if _, err := in.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil { // as the disk of another scheduler
		t.Fatal(err)
	}
	if err := in.KillJob(ctx, "blocker"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "blocker", job.Killed)
	c.SendOffer() // of the GPU that it left
	view, err := in.WaitForJob(ctx, "train")
	if err != nil || view.State != job.Refused {
		t.Fatalf("the job is %s, %v", view.State, err)
	}
	if !strings.Contains(view.Tasks[0].Message, "not in the scheduler's store") || !strings.Contains(view.Tasks[0].Message, "--workdirs") {
		t.Errorf("the job ended with %q", view.Tasks[0].Message)
	}
}

// TestUploadErrorsNameTheReason checks uploads that are not archives, and one that a full store rejects.
func TestUploadErrorsNameTheReason(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), WorkdirsMiB: 1})
	if _, err := in.ListSchedules(frameworktest.Timeout(t)); err != nil { // it waits for the leader
		t.Fatal(err)
	}
	put := func(digest string, body io.Reader) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(frameworktest.Timeout(t), http.MethodPut, "http://"+in.addr+"/v1/workdirs/"+digest, body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for digest, want := range map[string]string{
		job.WorkdirPrefix + strings.Repeat("0", 64): "not compressed by gzip", "md5:0": "is no digest",
	} {
		if status, text := put(digest, strings.NewReader("text")); status != 422 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", digest, status, text)
		}
	}
	large := t.TempDir()
	random := make([]byte, 2<<20)
	_, _ = rand.Read(random) // it never fails
	if err := os.WriteFile(filepath.Join(large, "weights"), random, 0o600); err != nil {
		t.Fatal(err)
	}
	var p *api.Problem
	if _, _, err := uploadFolder(t, in.Client, large, client.UploadOptions{}); !errors.As(err, &p) || p.Status != 507 || !strings.Contains(p.Detail, "with this one of 2.0 MiB it would have 2.0 MiB, more than its limit of 1.0 MiB") {
		t.Errorf("a full store: %v", err)
	}
}

// TestWorkdirsBelongToTheirUploaders checks that a digest alone opens no working folder where output is private: another user
// neither finds the archive, nor uses it in a job, a schedule, a check or a new run, until that user uploads the same content. The
// upload does not show that the content was there. Users who may change the job may use its folder.
func TestWorkdirsBelongToTheirUploaders(t *testing.T) {
	g := newGuardedConfig(t)
	g.makeOutputPrivate(t)
	in := startInstance(t, mesostest.NewCluster(t, 1),
		SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\n"), API: g.APIConfig},
		client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	folder := writeWorkdir(t, "secret = 1")
	stored, _, err := uploadFolder(t, alice, folder, client.UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := frameworktest.JobSpec("train", 1, 0)
	spec.Workdir = stored.Workdir
	if _, err := alice.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	stolen := spec
	stolen.Name = "stolen"
	due := stolen
	due.Schedule = &job.Schedule{Cron: "0 3 * * *"}
	service := frameworktest.JobSpec("service", 1, 0)
	service.Service = &job.Service{}
	if _, err := bob.SubmitJob(ctx, service); err != nil {
		t.Fatal(err)
	}
	updated := service
	updated.Workdir = stored.Workdir
	for way, use := range map[string]func() error{
		"submit":   func() error { _, err := bob.SubmitJob(ctx, stolen); return err },
		"validate": func() error { _, err := bob.ValidateJob(ctx, stolen, false); return err },
		"schedule": func() error { _, err := bob.AddSchedule(ctx, due); return err },
		"update":   func() error { _, err := bob.UpdateJob(ctx, updated); return err },
	} {
		var p *api.Problem
		if err := use(); !errors.As(err, &p) || p.Code != api.CodeWorkdirNotFound {
			t.Errorf("%s by the digest alone: %v", way, err)
		}
	}
	_, err = bob.RerunJob(ctx, "train", api.RerunRequest{})
	wantProblem(t, err, http.StatusForbidden, "operate on role research")
	if status, _ := g.getAs(t, "bob", in, "/v1/workdirs/"+stored.Workdir); status != http.StatusNotFound {
		t.Errorf("bob finds the archive: status %d", status)
	}
	for who, uploads := range map[*client.Client]bool{alice: false, bob: true, ops: false} {
		if _, uploaded, err := uploadFolder(t, who, folder, client.UploadOptions{}); err != nil || uploaded != uploads {
			t.Errorf("uploaded %t, %v; want %t", uploaded, err, uploads)
		}
	}
	for _, who := range []*client.Client{bob, ops} {
		if _, err := who.SubmitJob(ctx, stolen); err != nil {
			t.Errorf("after the upload, or as an operator: %v", err)
		}
		stolen.Name, stolen.Role = "of-operator", "research"
	}
}
