package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/web"
	"mesos-gpu/internal/writedeadline"
	"mesos-gpu/job"
)

// Extension is a part of the scheduler that keeps more than jobs, such as
// services by Marathon's definitions. Its requests are answered where it
// leads; other schedulers pass them on.
type Extension interface {
	http.Handler
	// Paths are those that it answers, with all that is below them.
	Paths() []string
	// Lead runs while this scheduler leads: until ctx ends, or it cannot go
	// on, which ends the scheduler too.
	Lead(ctx context.Context, c *ExtensionHandle) error
}

// MeasuredExtension is an Extension that counts things for /metrics.
type MeasuredExtension interface {
	// Gauges adds the numbers of now; see metrics.ExtensionGauge. It may be called
	// before Lead and after it, and tells nothing then.
	Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error
}

// ExtensionHandle is what an extension has jobs run by. What its methods do is
// recorded when they return nil.
type ExtensionHandle struct {
	leader  *leaderBackend
	changes *changeFeed
}

// DescribeScheduler tells where this scheduler answers, its framework's id and the role of
// jobs that name none.
func (c *ExtensionHandle) DescribeScheduler(ctx context.Context) (url, frameworkID, role string, err error) {
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		url, frameworkID, role = c.leader.url, st.FrameworkID(), st.DefaultRole()
		return nil
	})
	return url, frameworkID, role, err
}

// SubmitJobs submits the jobs, all or, where one may not be, none.
func (c *ExtensionHandle) SubmitJobs(ctx context.Context, specs ...job.Spec) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		for i := range specs {
			if err := st.AdmitCompleted(&specs[i]); err != nil {
				return err
			}
		}
		for _, s := range specs {
			apply(sched.SubmitJob{Spec: s})
		}
		return nil
	})
}

// ScaleJob has a service run so many tasks.
func (c *ExtensionHandle) ScaleJob(ctx context.Context, name string, tasks int) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitScale(name, tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: name, Tasks: tasks})
		return nil
	})
}

// StopTasks ends tasks; a service starts others in their places unless they are
// retired. Tasks that have ended are no error.
func (c *ExtensionHandle) StopTasks(ctx context.Context, ids []string, retire bool) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.StopTasks{TaskIDs: ids, Retire: retire})
		return nil
	})
}

// EndBackoff ends the pauses of tasks that wait to be started again.
func (c *ExtensionHandle) EndBackoff(ctx context.Context, ids []string) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.EndBackoff{TaskIDs: ids})
		return nil
	})
}

// CheckAdmission says whether the jobs may be submitted at all, and does nothing. Of a
// job that is there already, and of a scheduler that is full, it says nothing.
func (c *ExtensionHandle) CheckAdmission(ctx context.Context, specs ...job.Spec) error {
	return c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		for i := range specs {
			if err := st.AdmitCompleted(&specs[i]); err != nil && !errors.As(err, new(*sched.JobNotEndedError)) && !errors.As(err, new(*sched.TooManyTasksError)) {
				return api.NewProblemf(admissionStatus(err), "%w", err)
			}
		}
		return nil
	})
}

// KillJobs ends jobs. Jobs that have ended are no error.
func (c *ExtensionHandle) KillJobs(ctx context.Context, names ...string) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		for _, name := range names {
			apply(sched.KillJob{Job: name})
		}
		return nil
	})
}

// PutDocuments remembers documents, all or none; it forgets those that are empty.
func (c *ExtensionHandle) PutDocuments(ctx context.Context, documents map[string][]byte) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitDocuments(documents); err != nil {
			return err
		}
		for key, value := range documents {
			apply(sched.PutDocument{Key: key, Value: value})
		}
		return nil
	})
}

// LoadDocuments are all that were put. Nobody changes their values.
func (c *ExtensionHandle) LoadDocuments(ctx context.Context) (all map[string][]byte, err error) {
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		all = st.Documents()
		maps.DeleteFunc(all, func(key string, _ []byte) bool { return sched.IsReservedDocument(key) })
		return nil
	})
	return all, err
}

// FindJob is a copy of the job of that name as it is recorded now.
func (c *ExtensionHandle) FindJob(name string) (job.Job, bool) { return c.leader.view.copyJob(name) }

// AgentFields are what constraints compare of the agent of that id, such as @zone
// and its attributes, as far as the master tells. Nobody changes them.
func (c *ExtensionHandle) AgentFields(agentID string) map[string]string {
	return c.leader.agentFields.fieldsOf(agentID)
}

// applyInLoop applies the events of step, unless it returns an error, and then reads
// what they led to.
func (b *leaderBackend) applyInLoop(ctx context.Context, step func(st *sched.State, apply func(sched.Event)) error, read ...func(*sched.State) error) error {
	var refused error
	return b.runInLoop(ctx, func(apply func(sched.Event)) { refused = step(b.loop.state, apply) }, func(st *sched.State) error {
		if refused != nil {
			return refused
		}
		for _, f := range read {
			if err := f(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// newHandler is the APIConfig with the extension's part.
func (s *Scheduler) newHandler() http.Handler {
	v1 := web.NewHandler(s.cfg.API.newHandler(s.currentBackend, s.cfg.Log))
	if s.cfg.Extension == nil {
		return v1
	}
	guarded := api.RejectCrossOrigin(http.HandlerFunc(s.serveExtension), s.cfg.Log)
	paths := s.cfg.Extension.Paths()
	// http.ServeMux would send clients elsewhere for //, which the ids of apps
	// often have in front of them.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under := func(p string) bool { return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") }
		if slices.ContainsFunc(paths, under) {
			guarded.ServeHTTP(w, r)
			return
		}
		v1.ServeHTTP(w, r)
	})
}

// forwardedHeader marks a request of another scheduler, which took this one for the
// leader.
const forwardedHeader = "Mesos-Gpu-Passed-On"

// pingPath is Marathon's question whether somebody is there, which load
// balancers ask without a token.
const pingPath = "/ping"

// serveExtension answers for the extension, or has the leader do it.
func (s *Scheduler) serveExtension(w http.ResponseWriter, r *http.Request) {
	if err := api.CheckAnyAccess(api.GrantOf(r.Context())); err != nil && r.URL.Path != pingPath {
		api.WriteProblem(w, r, err, s.cfg.Log)
		return
	}
	if s.currentBackend().Leader != nil {
		s.cfg.Extension.ServeHTTP(w, r)
		return
	}
	to, err := s.leaderURL(r)
	if err != nil {
		writeUnavailable(w, err)
		return
	}
	(&httputil.ReverseProxy{
		Transport:     s.security.leaderTransport,
		FlushInterval: -1, // event streams
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(forwardedHeader, s.url)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			writeUnavailable(w, fmt.Errorf("pass the request on to %s, which leads: %w", to, err))
		},
	}).ServeHTTP(writedeadline.DeadlineWriter{ResponseWriter: w, Patience: responseWriteTimeout}, r)
}

// leaderURL is where the scheduler that leads answers.
func (s *Scheduler) leaderURL(r *http.Request) (*url.URL, error) {
	b := s.currentBackend()
	if b.Reads == nil {
		return nil, b.Redirect(r.Context())
	}
	h, err := b.Reads.GetHealth(r.Context())
	switch {
	case err != nil:
		return nil, err
	case h.LeaderURL == "":
		return nil, errors.New("no scheduler leads now")
	case h.LeaderURL == s.url || r.Header.Get(forwardedHeader) != "":
		return nil, errors.New("this scheduler does not lead yet")
	}
	to, err := url.Parse(h.LeaderURL)
	if err == nil && r.Header.Get("Authorization") != "" && !client.IsConfidential(to) {
		return nil, fmt.Errorf("the scheduler that leads answers at %s without TLS, and a token would be seen on the way: give it a certificate", to)
	}
	return to, err
}

// CheckAccess says what is in the way of a request to an extension, whose context it
// is: of seeing what is of a role or, with change, of changing it.
func CheckAccess(ctx context.Context, change bool, role string) error {
	p := access.View
	if change {
		p = access.Operate
		api.AuditNoteOf(ctx).Role = role
	}
	return api.CheckRoleAccess(api.GrantOf(ctx), p, role)
}

// writeUnavailable says why, in a form that clients of Marathon read too.
func writeUnavailable(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": why.Error() + ": ask again"}) // the client that went away learns nothing more
}

// responseWriteTimeout is how long a reader may take for what is written to it.
const responseWriteTimeout = time.Minute
