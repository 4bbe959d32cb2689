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
	"mesos-gpu/internal/patient"
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
	Lead(ctx context.Context, c *Cluster) error
}

// Measured is an Extension that counts things for /metrics.
type Measured interface {
	// Gauges adds the numbers of now; see metrics.Gauge. It may be called
	// before Lead and after it, and tells nothing then.
	Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error
}

// Cluster is what an extension has jobs run by. What its methods do is
// recorded when they return nil.
type Cluster struct {
	leader *leader
	news   *news
}

// Self tells where this scheduler answers, its framework's id and the role of
// jobs that name none.
func (c *Cluster) Self(ctx context.Context) (url, frameworkID, role string, err error) {
	err = c.leader.ask(ctx, nil, func(st *sched.State) error {
		url, frameworkID, role = c.leader.url, st.FrameworkID(), st.DefaultRole()
		return nil
	})
	return url, frameworkID, role, err
}

// Submit submits the jobs, all or, where one may not be, none.
func (c *Cluster) Submit(ctx context.Context, specs ...job.Spec) error {
	return c.leader.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		for i := range specs {
			if err := st.Admit(&specs[i]); err != nil {
				return err
			}
		}
		for _, s := range specs {
			apply(sched.Submit{Spec: s})
		}
		return nil
	})
}

// Scale has a service run so many tasks.
func (c *Cluster) Scale(ctx context.Context, name string, tasks int) error {
	return c.leader.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitScale(name, tasks); err != nil {
			return err
		}
		apply(sched.Scale{Job: name, Tasks: tasks})
		return nil
	})
}

// Stop ends tasks; a service starts others in their places unless they are
// retired. Tasks that have ended are no error.
func (c *Cluster) Stop(ctx context.Context, ids []string, retire bool) error {
	return c.leader.try(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.Stop{TaskIDs: ids, Retire: retire})
		return nil
	})
}

// Wake ends the pauses of tasks that wait to be started again.
func (c *Cluster) Wake(ctx context.Context, ids []string) error {
	return c.leader.try(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.Wake{TaskIDs: ids})
		return nil
	})
}

// Admit says whether the jobs may be submitted at all, and does nothing. Of a
// job that is there already, and of a scheduler that is full, it says nothing.
func (c *Cluster) Admit(ctx context.Context, specs ...job.Spec) error {
	return c.leader.ask(ctx, nil, func(st *sched.State) error {
		for i := range specs {
			if err := st.Admit(&specs[i]); err != nil && !errors.As(err, new(*sched.LiveError)) && !errors.As(err, new(*sched.FullError)) {
				return api.Problemf(refusal(err), "%w", err)
			}
		}
		return nil
	})
}

// Kill ends jobs. Jobs that have ended are no error.
func (c *Cluster) Kill(ctx context.Context, names ...string) error {
	return c.leader.try(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		for _, name := range names {
			apply(sched.Kill{Job: name})
		}
		return nil
	})
}

// Put remembers documents, all or none; it forgets those that are empty.
func (c *Cluster) Put(ctx context.Context, documents map[string][]byte) error {
	return c.leader.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitPuts(documents); err != nil {
			return err
		}
		for key, value := range documents {
			apply(sched.Put{Key: key, Value: value})
		}
		return nil
	})
}

// Documents are all that were put. Nobody changes their values.
func (c *Cluster) Documents(ctx context.Context) (all map[string][]byte, err error) {
	err = c.leader.ask(ctx, nil, func(st *sched.State) error {
		all = st.Documents()
		maps.DeleteFunc(all, func(key string, _ []byte) bool { return sched.Own(key) })
		return nil
	})
	return all, err
}

// Job is a copy of the job of that name as it is recorded now.
func (c *Cluster) Job(name string) (job.Job, bool) { return c.leader.view.job(name) }

// Fields are what constraints compare of the agent of that id, such as @zone
// and its attributes, as far as the master tells. Nobody changes them.
func (c *Cluster) Fields(agentID string) map[string]string { return c.leader.fields.of(agentID) }

// try applies the events of step, unless it returns an error, and then reads
// what they led to.
func (b *leader) try(ctx context.Context, step func(st *sched.State, apply func(sched.Event)) error, read ...func(*sched.State) error) error {
	var refused error
	return b.ask(ctx, func(apply func(sched.Event)) { refused = step(b.loop.st, apply) }, func(st *sched.State) error {
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

// handler is the API with the extension's part.
func (s *Scheduler) handler() http.Handler {
	v1 := web.Handler(s.cfg.API.handler(s.backend, s.cfg.Log))
	if s.cfg.Extension == nil {
		return v1
	}
	guarded := api.Guard(http.HandlerFunc(s.extended), s.cfg.Log)
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

// passedOn marks a request of another scheduler, which took this one for the
// leader.
const passedOn = "Mesos-Gpu-Passed-On"

// pingPath is Marathon's question whether somebody is there, which load
// balancers ask without a token.
const pingPath = "/ping"

// extended answers for the extension, or has the leader do it.
func (s *Scheduler) extended(w http.ResponseWriter, r *http.Request) {
	if err := api.MayEnter(api.GrantOf(r.Context())); err != nil && r.URL.Path != pingPath {
		api.Fail(w, r, err, s.cfg.Log)
		return
	}
	if _, leads := s.backend().(*leader); leads {
		s.cfg.Extension.ServeHTTP(w, r)
		return
	}
	to, err := s.elsewhere(r)
	if err != nil {
		nobodyAnswers(w, err)
		return
	}
	(&httputil.ReverseProxy{
		Transport:     s.door.relay,
		FlushInterval: -1, // event streams
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(passedOn, s.url)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			nobodyAnswers(w, fmt.Errorf("pass the request on to %s, which leads: %w", to, err))
		},
	}).ServeHTTP(patient.Writer{ResponseWriter: w, Patience: answerWait}, r)
}

// elsewhere is where the scheduler that leads answers.
func (s *Scheduler) elsewhere(r *http.Request) (*url.URL, error) {
	h, err := s.backend().Health(r.Context())
	switch {
	case err != nil:
		return nil, err
	case h.Leading == "":
		return nil, errors.New("no scheduler leads now")
	case h.Leading == s.url || r.Header.Get(passedOn) != "":
		return nil, errors.New("this scheduler does not lead yet")
	}
	to, err := url.Parse(h.Leading)
	if err == nil && r.Header.Get("Authorization") != "" && !client.Confidential(to) {
		return nil, fmt.Errorf("the scheduler that leads answers at %s without TLS, and a token would be seen on the way: give it a certificate", to)
	}
	return to, err
}

// May says what is in the way of a request to an extension, whose context it
// is: of seeing what is of a role or, with change, of changing it.
func May(ctx context.Context, change bool, role string) error {
	p := access.View
	if change {
		p = access.Operate
		api.NoteOf(ctx).Role = role
	}
	return api.MayIn(api.GrantOf(ctx), p, role)
}

// nobodyAnswers says why, in a form that clients of Marathon read too.
func nobodyAnswers(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": why.Error() + ": ask again"}) // the client that went away learns nothing more
}

// answerWait is how long a reader may take for what is written to it.
const answerWait = time.Minute
