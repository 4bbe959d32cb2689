package clustersim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/access"
	"mesos-gpu/framework/access/gate"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	apirequest "mesos-gpu/framework/request"
	"mesos-gpu/job"
	marathonapi "mesos-gpu/marathon/api"
)

// reader is a user who reads what the scheduler answers. Output is private.
type reader struct {
	name string
	// views, submits and operates are the roles on which the reader has each permission.
	views, submits, operates []string
}

// allReaders are the readers of every world that has any. limitedUsers own jobs.
var allReaders = []reader{
	{name: "auditor", views: []string{"/"}},
	{name: "visitor", views: []string{guestRole}},
	{name: "teammate", views: []string{role}},
	{name: "lead", operates: []string{role}},
	{name: limitedUsers[0], submits: []string{role}},
	{name: limitedUsers[1], submits: []string{guestRole}, views: []string{groupRole}},
	{name: "operator", operates: []string{"/"}},
}

func coversAny(roles []string, name string) bool {
	return slices.ContainsFunc(roles, func(r string) bool { return r == "/" || isWithin(name, r) })
}

// sees reports whether the reader may see the jobs of a role.
func (r *reader) sees(role string) bool {
	return coversAny(slices.Concat(r.views, r.submits, r.operates), role)
}

// knowsRole reports whether an answer may name a role: one that the reader sees, or one above it.
func (r *reader) knowsRole(name string) bool {
	return r.sees(name) || slices.ContainsFunc(slices.Concat(r.views, r.submits, r.operates), func(of string) bool { return isWithin(of, name) })
}

// readsAll reports whether the reader may read all fields of a job.
func (r *reader) readsAll(role, owner string) bool {
	return coversAny(r.operates, role) || owner == r.name && coversAny(r.submits, role)
}

// readersGate is the gate of the access file of all worlds, with the readers' tokens by name.
type readersGate struct {
	*gate.Gate
	tokens map[string]string
}

var openReadersGate = sync.OnceValues(func() (g readersGate, err error) {
	g.tokens = map[string]string{}
	var tokens, rules strings.Builder
	for i := range allReaders {
		r := &allReaders[i]
		token, hash, err := access.NewToken(r.name)
		if err != nil {
			return g, err
		}
		g.tokens[r.name] = token
		fmt.Fprintf(&tokens, "  - {name: %s, hash: %q}\n", r.name, hash)
		for permission, roles := range map[string][]string{"view": r.views, "submit": r.submits, "operate": r.operates} {
			if len(roles) > 0 {
				fmt.Fprintf(&rules, "  - {may: %s, roles: [%s], users: [%s]}\n", permission, strings.Join(roles, ", "), r.name)
			}
		}
	}
	f, err := os.CreateTemp("", "access")
	if err != nil {
		return g, err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, "output: private\ntokens:\n%spermissions:\n%s", &tokens, &rules)
	if err := errors.Join(err, f.Close()); err != nil {
		return g, err
	}
	g.Gate, err = gate.Open(f.Name(), nil, logrus.New())
	return g, err
})

// secret is what a field of a job contains that only those read who may read all of the job.
func secret(name, field string) string { return secretPrefix + name + "." + field }

const secretPrefix = "hush."

// addSecrets puts a secret into the fields of a job that are not public.
func addSecrets(s *job.Spec) {
	s.Command = append(s.Command, secret(s.Name, "command"))
	s.Env = map[string]string{"TOKEN": secret(s.Name, "env")}
	s.Secrets = map[string]string{"KEY": secret(s.Name, "secret")}
	s.Fetch = []job.FetchArtifact{{URI: "https://example.org/" + secret(s.Name, "fetch")}}
	s.Notify = []job.NotificationRule{{
		To: "https://example.org/" + secret(s.Name, "notify"), On: []job.NotificationEvent{job.NotifyFailure, job.NotifyPreemption},
	}}
}

// secretFields are the fields that addSecrets sets and a reader with the right reads. The target of notifications is not among
// them: the lists of notifications redact it.
var secretFields = []string{"command", "env", "secret", "fetch", "notify"}

// readerChecks reads what the scheduler answers, as each reader.
type readerChecks struct {
	world   *World
	handler http.Handler
	// process answers. pages belongs to it.
	process *process
	pages   readmodel.QueuePages
	// looks counts the reads so far.
	looks int
	// lastEvents are the last events that the readers have received, by name.
	lastEvents map[string]string
	// streams are the open streams of Marathon's events.
	streams []*eventStream
}

func newReaderChecks(w *World) *readerChecks {
	c := &readerChecks{world: w, lastEvents: map[string]string{}}
	g, err := openReadersGate()
	if err != nil {
		w.failf("the access file: %v", err)
		return c
	}
	log := w.scheduler.log
	v1 := apiserver.NewHandler(func() apiserver.Backend {
		b := &readBackend{Reader: clusterview.Reader{Model: c.process.loop.Model}, process: c.process, pages: &c.pages}
		return apiserver.Backend{
			Reads:    &apiserver.ReadBackend{Jobs: b, Names: b, Queue: b, Events: b, Status: b},
			Redirect: func(context.Context) error { return api.NewUnavailable("the leader's part is not simulated") },
		}
	}, log)
	c.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v2/") {
			v1.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == eventsPath {
			c.process.apps.ServeEvents(w, r)
			return
		}
		c.process.considerApps(c.process.apps.Serve(r.Context(), w, r))
	}))
	return c
}

// paths returns the requests that the readers make: lists, and of one job after the other what it alone is answered.
func (c *readerChecks) paths() []string {
	w := c.world
	name := w.users.names[c.looks%len(w.users.names)]
	list := []string{
		"/v1/jobs", "/v1/events", "/v1/jobs/" + name, "/v1/jobs/" + name + "/history", "/v1/queue", "/v1/jobs/" + name + "/runs", "/v1/notifications",
		"/v1/jobs/" + name + "/file", "/v1/roles", "/v1/holds",
	}
	if p := c.process; p.apps != nil {
		list = append(list, "/v2/apps?embed=apps.tasks&embed=apps.lastTaskFailure&embed=apps.readiness", "/v2/queue", "/v2/tasks", "/v2/deployments", "/v2/groups?embed=group.apps")
	}
	return list
}

// look makes some of the requests as one of the readers, another one each time.
func (c *readerChecks) look(p *process, requests int) {
	c.process = p
	for range requests {
		paths := c.paths()
		c.read(&allReaders[c.looks%len(allReaders)], paths[c.looks/2%len(paths)])
		c.looks++
	}
}

// lookAtReclaim makes the requests whose answers name the job for which a task of another one has to end.
func (c *readerChecks) lookAtReclaim(p *process, name string) {
	c.process = p
	paths := []string{"/v1/jobs", "/v1/jobs/" + name, "/v1/jobs/" + name + "/history", "/v1/queue", "/v1/events"}
	if p.apps != nil {
		paths = append(paths, "/v2/queue", "/v2/apps?embed=apps.lastTaskFailure")
	}
	for n, path := range paths {
		for i := (n + c.looks) % 2; i < len(allReaders); i += 2 {
			c.read(&allReaders[i], path)
		}
	}
	c.looks++
}

// lookAtAll makes all requests, each as some of the readers.
func (c *readerChecks) lookAtAll(p *process) {
	c.process = p
	for n, path := range c.paths() {
		step := 4
		if strings.HasPrefix(path, "/v2/") { // few worlds have an app
			step = 1
		}
		for i := (n + c.looks) % step; i < len(allReaders); i += step {
			c.read(&allReaders[i], path)
		}
	}
}

// read makes a request and checks its answer.
func (c *readerChecks) read(by *reader, path string) {
	r := requestOf(by, path)
	if path == "/v1/events" {
		r.Header.Set("Last-Event-ID", c.lastEvents[by.name])
	}
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, r)
	switch answer.Code {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusNotFound:
		if c.maySee(by, path) {
			c.world.failf("%s: %s is answered %d: %s", by.name, path, answer.Code, answer.Body)
		}
	default:
		c.world.failf("%s: %s is answered %d: %s", by.name, path, answer.Code, answer.Body)
	}
	text := answer.Body.Bytes()
	if path == "/v1/events" {
		for line := range bytes.Lines(text) {
			if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
				c.lastEvents[by.name] = string(bytes.TrimSpace(id))
			}
		}
	}
	c.world.Reads++
	c.check(by, path, text)
	if name, ofJob := strings.CutPrefix(path, "/v1/jobs/"); ofJob && answer.Code == http.StatusOK {
		if j := c.world.users.jobs[name]; j != nil && by.readsAll(j.spec.Role, j.spec.Owner) {
			for _, field := range secretFields {
				if !bytes.Contains(text, []byte(secret(name, field))) {
					c.world.failf("%s does not read %s: %s", by.name, secret(name, field), text)
				}
			}
		}
	}
}

// requestOf returns a request of a reader.
func requestOf(by *reader, path string) *http.Request {
	g, _ := openReadersGate()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+g.tokens[by.name])
	return r
}

// eventsPath is the stream of Marathon's events.
const eventsPath = "/v2/events"

// eventStream is an open stream of a reader. A goroutine writes it, so that each event is in it, whenever that was written.
type eventStream struct {
	*httptest.ResponseRecorder
	process *process
	by      *reader
	// opened is closed when the stream gets events, done when nothing more is written.
	opened, done chan struct{}
	open         sync.Once
}

func (s *eventStream) Flush() { s.open.Do(func() { close(s.opened) }) }

// openStreams opens a stream of the process's events for each reader. Those without the right are refused.
func (c *readerChecks) openStreams(p *process) {
	c.process = p
	for i := range allReaders {
		s := &eventStream{
			ResponseRecorder: httptest.NewRecorder(), process: p, by: &allReaders[i],
			opened: make(chan struct{}), done: make(chan struct{}),
		}
		go func() {
			defer close(s.done)
			c.handler.ServeHTTP(s, requestOf(s.by, eventsPath+"?plan-format=heavy"))
		}()
		select {
		case <-s.opened:
			c.streams = append(c.streams, s)
		case <-s.done:
		}
	}
}

// closeStreams ends the streams of a process and checks them.
func (c *readerChecks) closeStreams(p *process) {
	if p.apps == nil {
		return
	}
	p.apps.CloseStreams()
	for _, s := range c.streams {
		if s.process == p {
			<-s.done
			c.world.Reads++
			c.check(s.by, eventsPath, s.Body.Bytes())
		}
	}
	c.streams = slices.DeleteFunc(c.streams, func(s *eventStream) bool { return s.process == p })
}

// maySee reports whether the answer to a request must not be a refusal.
func (c *readerChecks) maySee(by *reader, path string) bool {
	rest, ofJob := strings.CutPrefix(path, "/v1/jobs/")
	name, part, _ := strings.Cut(rest, "/")
	switch j := c.world.users.jobs[name]; {
	case !ofJob:
		return true
	case j == nil || !c.isRecorded(name):
		return false
	case part == "file":
		return by.readsAll(j.spec.Role, j.spec.Owner)
	default:
		return by.sees(j.spec.Role)
	}
}

func (c *readerChecks) isRecorded(name string) bool {
	_, recorded := c.process.loop.Model.CopyJob(name)
	return recorded
}

// eachWord calls do for each part of a text that begins with a prefix and goes on with letters, digits, dots and dashes.
func eachWord(text []byte, prefix string, do func(word string)) {
	for {
		at := bytes.Index(text, []byte(prefix))
		if at < 0 {
			return
		}
		text = text[at:]
		end := bytes.IndexFunc(text, func(r rune) bool { return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(text)
		}
		do(string(text[:end]))
		text = text[end:]
	}
}

// check checks that an answer has nothing that the reader may not read.
func (c *readerChecks) check(by *reader, path string, text []byte) {
	eachWord(text, secretPrefix, func(word string) {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, secretPrefix), ".")
		if role, owner := c.ownerOf(name); !by.readsAll(role, owner) {
			c.world.failf("%s reads %s, of role %s and owner %q, at %s: %s", by.name, word, role, owner, path, text)
		}
	})
	checkName := func(word string) {
		name, _, _ := strings.Cut(word, ".")
		if role, _ := c.ownerOf(name); !by.sees(role) && !strings.HasPrefix(path, "/v1/jobs/"+name) { // the answer to such a request repeats the name
			c.world.failf("%s reads of %s, of role %s, at %s: %s", by.name, word, role, path, text)
		}
	}
	eachWord(text, jobNames, checkName)
	eachWord(text, appJobs, checkName)
	for _, name := range []string{role, guestRole, groupRole} {
		if !by.knowsRole(name) && namesRole(text, name) {
			c.world.failf("%s reads of role %s at %s: %s", by.name, name, path, text)
		}
	}
}

// namesRole reports whether a text names a role, and not only one below it.
func namesRole(text []byte, name string) bool {
	for rest := text; ; {
		at := bytes.Index(rest, []byte(name))
		if at < 0 {
			return false
		}
		if rest = rest[at+len(name):]; len(rest) == 0 || rest[0] != '/' {
			return true
		}
	}
}

// ownerOf returns the role and the owner of a job, or of the app.
func (c *readerChecks) ownerOf(name string) (of, owner string) {
	if j := c.world.users.jobs[name]; j != nil {
		return j.spec.Role, j.spec.Owner
	}
	return role, ""
}

// readBackend answers reads as the leader does, without its goroutines.
type readBackend struct {
	clusterview.Reader
	process *process
	pages   *readmodel.QueuePages
}

// explainPending sets why jobs wait.
func (b *readBackend) explainPending(views []api.JobView) {
	for i := range views {
		v := &views[i]
		if !v.HasWaiting {
			continue
		}
		if r, ok := b.process.state.PendingReasons(v.RunID())[v.RunID()]; ok {
			v.WaitReason = r.Text()
		}
		v.Warnings = b.process.state.BudgetWarnings(v.Spec)
	}
}

func (b *readBackend) ListJobs(_ context.Context, q apirequest.JobQuery) (api.JobList, error) {
	list, err := b.Model.ListJobs(q)
	b.explainPending(list.Jobs)
	return list, err
}

func (b *readBackend) GetJob(_ context.Context, name string) (api.JobView, error) {
	view, err := b.Model.JobView(name)
	if err != nil {
		return view, err
	}
	views := []api.JobView{view}
	b.explainPending(views)
	return views[0], nil
}

func (b *readBackend) ListQueue(_ context.Context, by *access.Grant, p api.PageRequest) (api.QueueList, error) {
	list, err := b.pages.ListPage(p, by, func() ([]job.RunID, error) { return b.process.state.QueueOrder(), nil }, b.process.state.Job)
	for i := range list.Jobs {
		if r, ok := b.process.state.PendingReasons(list.Jobs[i].RunID())[list.Jobs[i].RunID()]; ok {
			list.Jobs[i].Reason = r.Text()
		}
	}
	return list, err
}

func (b *readBackend) ListRoles(context.Context) ([]api.RoleStatus, error) {
	return readmodel.RoleViews(b.process.state), nil
}

// WatchEvents returns the events until now, on a channel that is then closed: a stream ends without waiting.
func (b *readBackend) WatchEvents(ctx context.Context, q apirequest.EventQuery) (<-chan apirequest.EventBatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, err := b.Model.ReadStates(apirequest.EventQuery{LiveOnly: true}, func(*apirequest.EventBatch) error { return nil })
	if err != nil {
		return nil, err
	}
	more, err := b.Model.WatchEvents(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []apirequest.EventBatch
	for at := q.After; at != now; {
		batch := <-more
		list = append(list, batch)
		if n := len(batch.Events); n == 0 || batch.Missed {
			break
		} else {
			at = batch.Events[n-1].ID
		}
	}
	all := make(chan apirequest.EventBatch, len(list))
	for _, batch := range list {
		all <- batch
	}
	close(all)
	return all, nil
}

func (b *readBackend) GetHealth(context.Context) (api.HealthStatus, error) {
	return api.HealthStatus{}, nil
}
func (b *readBackend) CheckReady(context.Context) error { return nil }
func (b *readBackend) AsOf() time.Time                  { return time.Time{} }
func (b *readBackend) MetricsSnapshot(context.Context) (metrics.Snapshot, error) {
	return metrics.Snapshot{}, nil
}

// authorizeApps checks the access file's permission for a request to Marathon's API.
func authorizeApps(ctx context.Context, p marathonapi.Permission, role string) error {
	if p == marathonapi.ReadOutput {
		return framework.CheckOutputAccess(ctx, role)
	}
	return framework.CheckAccess(ctx, map[marathonapi.Permission]access.Permission{
		marathonapi.See: access.View, marathonapi.Change: access.Operate, marathonapi.Administer: access.Admin,
	}[p], role)
}
