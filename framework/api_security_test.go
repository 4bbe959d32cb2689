package framework

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// guardedConfig is a configuration with TLS, an audit log and an access file, and the
// tokens of the users in it.
type guardedConfig struct {
	APIConfig
	tokens map[string]string
}

// tokens returns tokens with their hashes by user. They are created once because hashing is slow.
var tokens = sync.OnceValues(func() (map[string][2]string, error) {
	made := map[string][2]string{}
	for _, name := range []string{"alice", "bob", "ops", "web"} {
		token, hash, err := access.NewToken(name)
		if err != nil {
			return nil, err
		}
		made[name] = [2]string{token, hash}
	}
	return made, nil
})

// newGuardedConfig returns a configuration for alice and bob, who submit to research,
// ops, who operates all roles, and web, who views prod.
func newGuardedConfig(t *testing.T) guardedConfig {
	t.Helper()
	dir := t.TempDir()
	g := guardedConfig{tokens: map[string]string{}}
	g.CertFile, g.KeyFile = mesostest.WriteCertificate(t, dir)
	g.CAFile = g.CertFile
	g.AccessFile, g.AuditFile = filepath.Join(dir, "access.yaml"), filepath.Join(dir, "audit.log")
	var file strings.Builder
	fmt.Fprintln(&file, "tokens:")
	made, err := tokens()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range made {
		g.tokens[name] = m[0]
		fmt.Fprintf(&file, "- {name: %s, hash: '%s'}\n", name, m[1])
	}
	fmt.Fprint(&file, `permissions:
- {may: submit, roles: [research], users: [alice, bob]}
- {may: operate, roles: [/], users: [ops]}
- {may: view, roles: [prod], users: [web]}
jobs:
- {roles: [research], images: [debian], networks: [host], without_image: true}
`)
	g.writeAccessFile(t, file.String())
	return g
}

func (g *guardedConfig) writeAccessFile(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(g.AccessFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeOutputPrivate adds output: private to the access file.
func (g *guardedConfig) makeOutputPrivate(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(g.AccessFile)
	if err != nil {
		t.Fatal(err)
	}
	g.writeAccessFile(t, "output: private\n"+string(text))
}

// clientAs returns a client of the schedulers with the user's token.
func (g *guardedConfig) clientAs(t *testing.T, who string, instances ...*testInstance) *client.Client {
	t.Helper()
	var urls []string
	for _, in := range instances {
		urls = append(urls, g.URLFor(in.addr))
	}
	options := []client.Option{client.WithTrustedCA(g.CAFile)}
	if who != "" {
		options = append(options, client.WithToken(g.tokens[who]))
	}
	c, err := client.New(strings.Join(urls, ","), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// getAs sends a GET request with the user's token through a plain HTTP client.
func (g *guardedConfig) getAs(t *testing.T, who string, in *testInstance, path string) (int, string) {
	t.Helper()
	transport, err := g.newLeaderTransport()
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URLFor(in.addr)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+g.tokens[who])
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestAccessAndAudit: over TLS, each user can do what the access file permits, in the
// role that the job gets, and the audit log contains the changes.
func TestAccessAndAudit(t *testing.T) {
	g := newGuardedConfig(t)
	in := startInstance(t, mesostest.NewCluster(t, 4),
		SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nprod: {}\n"), API: g.APIConfig},
		client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops, web := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in), g.clientAs(t, "web", in)
	view, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1))
	if err != nil || view.Spec.Role != "research" || view.Spec.Owner != "alice" {
		t.Fatalf("alice's job: %+v, %v", *view.Spec, err)
	}
	if _, err := alice.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("keyed", 1, 0)); err != nil {
		t.Fatal(err)
	}
	// alice's idempotency key and name reveal nothing to bob
	if of, err := bob.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("keyed", 1, 0)); err != nil || of.Spec.Owner != "bob" || of.AlreadySubmitted {
		t.Errorf("bob's job: %+v, %v", of, err)
	}
	s := frameworktest.JobSpec("web", 1, 0)
	s.Role = "prod"
	_, err = alice.SubmitJob(ctx, s)
	wantProblem(t, err, http.StatusForbidden, "alice may not do this: it needs the permission submit on role prod")
	_, err = web.SubmitJob(ctx, frameworktest.JobSpec("x", 1, 0))
	wantProblem(t, err, http.StatusForbidden, "it needs the permission submit on any role")
	_, err = in.SubmitJob(ctx, frameworktest.JobSpec("x", 1, 0))
	wantProblem(t, err, http.StatusUnauthorized, "this needs a token")
	wantProblem(t, bob.KillJob(ctx, "train"), http.StatusForbidden, "operate on role research")
	if _, err := bob.GetJob(ctx, "train"); err != nil {
		t.Errorf("bob sees not what alice does: %v", err)
	}
	_, err = web.GetJob(ctx, "train")
	wantProblem(t, err, http.StatusNotFound, `there is no job "train"`)
	if list, err := web.ListJobs(ctx); len(list) != 0 || err != nil {
		t.Errorf("web sees %d jobs, %v", len(list), err)
	}
	for ev, err := range alice.StreamEvents(ctx, "train") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.State == job.Running {
			break
		}
	}
	if gpus, err := web.ListGPUs(ctx); err != nil || !strings.Contains(fmt.Sprint(gpus), api.HiddenTaskID) || strings.Contains(fmt.Sprint(gpus), "train") {
		t.Errorf("web sees %+v, %v", gpus, err)
	}
	if err := alice.KillJob(ctx, "train"); err != nil {
		t.Errorf("alice may not kill her own: %v", err)
	}
	if _, err := alice.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if of, err := bob.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 0)); err != nil || of.Spec.Owner != "bob" {
		t.Fatalf("bob's job: %+v, %v", of, err)
	}
	if err := bob.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	again, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 8))
	if err != nil {
		t.Fatal(err)
	}
	if _, owner, err := in.currentBackend().Reads.Jobs.OwnerOf(ctx, "train", view.Tasks[0].ID); err != nil || owner != "alice" ||
		again.Tasks[0].ID == view.Tasks[0].ID {
		t.Errorf("the task of the first run is of %q, %v", owner, err)
	}
	_, _, err = in.currentBackend().Reads.Jobs.OwnerOf(ctx, "train", "train.0.1.0")
	wantProblem(t, err, http.StatusNotFound, "train.0.1.0")
	_, err = web.GetJob(ctx, "train@1")
	wantProblem(t, err, http.StatusNotFound, "train@1")
	_, err = bob.GetJob(ctx, "train@1")
	if _, other := bob.GetJob(ctx, "train"); (err == nil) != (other == nil) {
		t.Errorf("bob sees the first run: %v, the second: %v", err, other)
	}
	if _, _, err := in.currentBackend().Reads.Jobs.OwnerOf(ctx, "train", again.Tasks[0].ID); err != nil {
		t.Error(err)
	}
	image := frameworktest.JobSpec("image", 1, 0)
	image.Image = "evil/debian"
	_, err = ops.SubmitJob(ctx, image)
	wantProblem(t, err, http.StatusForbidden, "image: evil/debian is not allowed: the access file allows jobs of this role: debian")
	s.Name = "bare"
	_, err = ops.SubmitJob(ctx, s) // in role prod, which the file does not mention
	wantProblem(t, err, http.StatusForbidden, "without one the task sees its agent's files")
	if h, err := in.GetHealth(ctx); err != nil || h.LeaderURL != "https://"+in.addr {
		t.Errorf("health without a token: %+v, %v", h, err)
	}
	if code, _ := g.getAs(t, "", in, "/metrics"); code != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d", code)
	}
	text, err := os.ReadFile(g.AuditFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"who":"alice","from":"127.0.0.1","method":"POST","path":"/v1/jobs","job":"train","role":"research","made":"/v1/jobs/train","status":201`,
		`"who":"alice","from":"127.0.0.1","method":"POST","path":"/v1/jobs","job":"web","role":"prod","status":403`,
		`"who":"bob","from":"127.0.0.1","method":"DELETE","path":"/v1/jobs/train","job":"train@1","role":"research","status":403`,
		`"who":"alice","from":"127.0.0.1","method":"DELETE","path":"/v1/jobs/train","job":"train@1","role":"research","status":202`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), g.tokens["alice"]) || strings.Contains(string(text), `"status":401`) {
		t.Errorf("the audit log contains entries that it must not have:\n%s", text)
	}
	in.stopAndWait(t)
}

// TestAccessToSchedulesAndQueue: schedules belong to their owner and role, and a user
// who may view one role sees only that role in the queue and in the list of roles.
func TestAccessToSchedulesAndQueue(t *testing.T) {
	g := newGuardedConfig(t)
	in := startInstance(t, mesostest.NewCluster(t, 1),
		SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nprod: {}\n"), API: g.APIConfig},
		client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops, web := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in), g.clientAs(t, "web", in)
	s := frameworktest.JobSpec("nightly", 1, 0)
	s.Schedule = &job.Schedule{Cron: "0 3 * * *"}
	view, err := alice.AddSchedule(ctx, s)
	if err != nil || view.Spec.Role != "research" || view.Spec.Owner != "alice" {
		t.Fatalf("alice's schedule: %+v, %v", view.Spec, err)
	}
	other := s
	other.Name, other.Role = "of-prod", "prod"
	_, err = alice.AddSchedule(ctx, other)
	wantProblem(t, err, http.StatusForbidden, "submit on role prod")
	_, err = web.AddSchedule(ctx, s)
	wantProblem(t, err, http.StatusForbidden, "submit on any role")
	for who, want := range map[*client.Client]int{alice: 1, bob: 1, ops: 1, web: 0} {
		if list, err := who.ListSchedules(ctx); err != nil || len(list) != want {
			t.Errorf("sees %d schedules, want %d: %v", len(list), want, err)
		}
	}
	_, err = web.GetSchedule(ctx, "nightly")
	wantProblem(t, err, http.StatusNotFound, `there is no schedule "nightly"`)
	wantProblem(t, bob.EndSchedule(ctx, "nightly"), http.StatusForbidden, "operate on role research")
	// bob has a schedule of the same name. The name means the requester's; ops says whose.
	if of, err := bob.AddSchedule(ctx, s); err != nil || of.Spec.Owner != "bob" {
		t.Fatalf("bob's schedule: %+v, %v", of.Spec, err)
	}
	_, err = bob.AddSchedule(ctx, s)
	wantProblem(t, err, http.StatusConflict, `schedule "nightly" already exists`)
	for reference, c := range map[string]*client.Client{"nightly": alice, "alice/nightly": ops} {
		if of, err := c.GetSchedule(ctx, reference); err != nil || of.Spec.Owner != "alice" {
			t.Errorf("%s is of %q, %v", reference, of.Spec.Owner, err)
		}
	}
	_, err = ops.GetSchedule(ctx, "nightly")
	wantProblem(t, err, http.StatusConflict, `"nightly" names 2 schedules: name one of alice/nightly, bob/nightly`)
	wantProblem(t, bob.EndSchedule(ctx, "alice/nightly"), http.StatusForbidden, "operate on role research")
	if err := bob.EndSchedule(ctx, "nightly"); err != nil {
		t.Error(err)
	}
	if of, err := ops.GetSchedule(ctx, "nightly"); err != nil || of.Spec.Owner != "alice" {
		t.Errorf("after bob's end the name means that of %q, %v", of.Spec.Owner, err)
	}
	if err := alice.EndSchedule(ctx, "nightly"); err != nil {
		t.Errorf("alice may not end her own: %v", err)
	}

	if _, err := alice.SubmitJob(ctx, frameworktest.JobSpec("waits", 1, 8)); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[*client.Client]string{alice: "waits of research; research", ops: "waits of research; research prod", web: "; prod"} {
		queue, err := who.ListQueue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		roles, err := who.ListRoles(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got, names []string
		for _, q := range queue {
			got = append(got, q.Name+" of "+q.Role)
		}
		for _, r := range roles {
			names = append(names, r.Name)
		}
		if got := strings.Join(got, " ") + "; " + strings.Join(names, " "); got != want {
			t.Errorf("sees %q, want %q", got, want)
		}
	}
	in.stopAndWait(t)
}

// TestOpenAPIChecksHostNames: without an access file, a Host header that is not the
// scheduler's is rejected; with one, tokens identify the client instead.
func TestOpenAPIChecksHostNames(t *testing.T) {
	made := newGuardedConfig(t)
	shut, err := (&APIConfig{AccessFile: made.AccessFile}).openSecurity(admission.HostPermissions{}, frameworktest.DiscardLog())
	if err != nil {
		t.Fatal(err)
	}
	taken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		door apiSecurity
		host string
		want int
	}{
		{apiSecurity{}, "gpu.example.org:8080", http.StatusOK}, {apiSecurity{}, "127.0.0.1:8080", http.StatusOK},
		{apiSecurity{}, "evil.example:8080", http.StatusForbidden}, {shut, "other.example.org", http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		c.door.wrapHandler(taken, "http://gpu.example.org:8080", frameworktest.DiscardLog()).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.host, w.Code, c.want)
		}
	}
}

// TestAccessIsReloaded: new permissions apply to the next request, new limits to the
// next job, and an invalid file changes nothing.
func TestAccessIsReloaded(t *testing.T) {
	g := newGuardedConfig(t)
	in := startInstance(t, mesostest.NewCluster(t, 1),
		SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nprod: {}\n"), API: g.APIConfig},
		client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	web := g.clientAs(t, "web", in)
	before, err := os.ReadFile(g.AccessFile)
	if err != nil {
		t.Fatal(err)
	}
	g.writeAccessFile(t, string(before)+"nonsense: 1\n")
	if err := in.Reload(); err == nil || !strings.Contains(err.Error(), `unknown key "nonsense"`) {
		t.Errorf("a mistake: %v", err)
	}
	_, err = web.SubmitJob(ctx, frameworktest.JobSpec("x", 1, 0))
	wantProblem(t, err, http.StatusForbidden, "submit on any role")
	writeRoles := func(text string) {
		if err := os.WriteFile(in.cfg.RolesFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeRoles("research: nonsense\n")
	g.writeAccessFile(t, strings.Replace(string(before), "may: view, roles: [prod]", "may: submit, roles: [research]", 1))
	if err := in.Reload(); err == nil {
		t.Error("a roles file with a mistake was accepted")
	}
	_, err = web.SubmitJob(ctx, frameworktest.JobSpec("x", 1, 0))
	wantProblem(t, err, http.StatusForbidden, "submit on any role")
	writeRoles("research: {}\nprod: {}\n")
	after := strings.Replace(string(before), "may: view, roles: [prod]", "may: submit, roles: [research]", 1)
	g.writeAccessFile(t, strings.Replace(after, "images: [debian]", "images: [evil/debian]", 1))
	if err := in.Reload(); err != nil {
		t.Fatal(err)
	}
	image := frameworktest.JobSpec("x", 1, 0)
	image.Image = "evil/debian"
	if _, err := web.SubmitJob(ctx, image); err != nil {
		t.Errorf("after the reload: %v", err)
	}
	if err := (&Scheduler{}).Reload(); err == nil {
		t.Error("the file was not reloaded")
	}
}

// TestAccessThroughAStandby: the client's token also reaches the leader when a standby
// redirects or forwards the request.
func TestAccessThroughAStandby(t *testing.T) {
	g := newGuardedConfig(t)
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	make := func() *testInstance {
		e := &testExtension{led: make(chan *leader.ExtensionHandle, 1)}
		return startInstance(t, c, SchedulerConfig{
			JournalPath:    "zk://" + server.Addr() + "/mesos-gpu/test",
			SessionTimeout: lasting,
			RolesFile:      writeRolesFile(t, "research: {}\nprod: {}\n"),
			Extension:      e,
			API:            g.APIConfig,
		}, client.WithTrustedCA(g.CAFile))
	}
	first := make()
	awaitRole(t, first, api.Leader)
	second := make()
	if h := awaitRole(t, second, api.Standby); h.LeaderURL != "https://"+first.addr {
		t.Errorf("the standby says %+v", h)
	}
	ctx := longTimeout(t)
	alice, bob := g.clientAs(t, "alice", second), g.clientAs(t, "bob", second)
	if view, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil || view.Spec.Owner != "alice" {
		t.Fatalf("through the standby: %+v, %v", *view.Spec, err)
	}
	wantProblem(t, bob.KillJob(ctx, "train"), http.StatusForbidden, "operate on role research")
	_, err := second.SubmitJob(ctx, frameworktest.JobSpec("x", 1, 0))
	wantProblem(t, err, http.StatusUnauthorized, "this needs a token")
	if err := alice.KillJob(ctx, "train"); err != nil {
		t.Error(err)
	}
	for who, want := range map[string]int{"alice": http.StatusOK, "": http.StatusUnauthorized} {
		if code, body := g.getAs(t, who, second, "/v2/apps"); code != want {
			t.Errorf("%q passed on: %d %s", who, code, body)
		}
	}
	if code, _ := g.getAs(t, "", second, "/ping"); code == http.StatusUnauthorized {
		t.Error("a load balancer needs a token")
	}
	text, err := os.ReadFile(g.AuditFile) // shared by both schedulers
	if err != nil || strings.Count(string(text), `"status":201`) != 1 || strings.Contains(string(text), `"status":307`) {
		t.Errorf("the audit log: %v\n%s", err, text)
	}
	second.stopAndWait(t)
	first.stopAndWait(t)
}

// TestTokenIsNotForwardedWithoutTLS: a standby does not send a token to a leader without TLS.
func TestTokenIsNotForwardedWithoutTLS(t *testing.T) {
	s := &Scheduler{url: "https://me"}
	for leading, want := range map[string]bool{"http://10.0.0.7:8080": false, "https://10.0.0.7:8080": true, "http://127.0.0.1:8080": true} {
		s.setBackend(apiserver.Backend{Reads: &apiserver.ReadBackend{Status: leaderURLBackend{url: leading}}})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/apps", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.leaderURL(r); err != nil {
			t.Errorf("%s, without a token: %v", leading, err)
		}
		r.Header.Set("Authorization", "Bearer x")
		if _, err := s.leaderURL(r); (err == nil) != want {
			t.Errorf("%s: %v", leading, err)
		}
	}
}

// leaderURLBackend is a standby's backend with the URL of the leader.
type leaderURLBackend struct {
	backendtest.Reads
	url string
}

func (l leaderURLBackend) GetHealth(context.Context) (api.HealthStatus, error) {
	return api.HealthStatus{LeaderURL: l.url}, nil
}

// TestListenAddressNeedsAccessAndTLS: an address other than loopback requires TLS and an
// access file, unless the operator opens the API explicitly.
func TestListenAddressNeedsAccessAndTLS(t *testing.T) {
	whole := APIConfig{AccessFile: "a", CertFile: "c", KeyFile: "k"}
	for _, c := range []struct {
		name, ip string
		api      APIConfig
		good     bool
	}{
		{"loopback", "127.0.0.1", APIConfig{}, true},
		{"loopback, the other", "::1", APIConfig{}, true},
		{"loopback with tokens", "127.0.0.1", APIConfig{AccessFile: "a"}, true},
		{"any", "0.0.0.0", APIConfig{}, false},
		{"any, the other", "::", APIConfig{}, false},
		{"another", "10.0.0.7", APIConfig{}, false},
		{"TLS alone", "10.0.0.7", APIConfig{CertFile: "c"}, false},
		{"tokens alone", "10.0.0.7", APIConfig{AccessFile: "a"}, false},
		{"both", "10.0.0.7", whole, true},
		{"open", "10.0.0.7", APIConfig{Open: true}, true},
	} {
		err := c.api.checkListenAddress(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1}, frameworktest.DiscardLog())
		if (err == nil) != c.good || err != nil && (!strings.Contains(err.Error(), "--insecure-api") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s, err := New(SchedulerConfig{APIAddr: "0.0.0.0:0", JournalPath: filepath.Join(t.TempDir(), "journal.db"), Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(frameworktest.Timeout(t)); err == nil || !strings.Contains(err.Error(), "give --access, --api-tls-cert and --api-tls-key") {
		t.Errorf("Run returned %v", err)
	}
}

func TestAPIConfigIsValidated(t *testing.T) {
	dir := t.TempDir()
	cert, key := mesostest.WriteCertificate(t, dir)
	file := filepath.Join(dir, "access")
	if err := os.WriteFile(file, []byte("metrics: open"), 0o600); err != nil {
		t.Fatal(err)
	}
	volumes := SchedulerConfig{API: APIConfig{AccessFile: file}}
	volumes.Sched.Policy.Permissions.Volumes = []string{"/data"}
	for want, cfg := range map[string]SchedulerConfig{
		"needs its key":                      {API: APIConfig{CertFile: cert}},
		"the access file sets what jobs may": volumes,
		"read access file":                   {API: APIConfig{AccessFile: filepath.Join(dir, "none")}},
		"read the API's certificate":         {API: APIConfig{CertFile: key, KeyFile: key}},
		"read the API's authorities: open":   {API: APIConfig{CAFile: filepath.Join(dir, "none")}},
		"no PEM certificate in":              {API: APIConfig{CAFile: file}},
		"open the audit log":                 {API: APIConfig{AuditFile: dir}},
	} {
		cfg.Log = frameworktest.DiscardLog()
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	if u, err := url.Parse((&APIConfig{CertFile: "c"}).URLFor("h:1")); err != nil || u.Scheme != "https" {
		t.Errorf("%v, %v", u, err)
	}
}

// TestExecCanBeDisabled: an operator can disable commands in tasks, and with them all other ways to reach their programs. The
// request is refused before its job is looked up.
func TestExecCanBeDisabled(t *testing.T) {
	for _, off := range []bool{false, true} {
		a := APIConfig{NoExec: off}
		h := a.newHandler(func() apiserver.Backend { return apiserver.NewUnavailableBackend("starting") }, nil, frameworktest.DiscardLog())
		for _, path := range []string{"exec?argv=id", "attach", "port-forward?port=8888", "proxy/8888/"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/jobs/train/tasks/0/"+path, nil))
			if want := map[bool]int{false: 503, true: 403}[off]; w.Code != want {
				t.Errorf("%s, off %t: %d %s, want %d", path, off, w.Code, w.Body, want)
			}
		}
	}
}
