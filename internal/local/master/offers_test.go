package master

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/minimesos/resource"
)

// running runs a master with a fake clock.
func running(t *testing.T, test func(t *testing.T, m *EmbeddedMaster)) {
	synctest.Test(t, func(t *testing.T) {
		m := New(MasterConfig{})
		ctx, cancel := contextOf(t)
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		test(t, m)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (c *masterClient) call(t *testing.T, kind scheduler.Call_Type) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: kind})
}

// after fails unless the next offers arrive after that time, plus or minus one
// allocation interval.
func (c *masterClient) after(t *testing.T, want time.Duration) []mesos.Offer {
	t.Helper()
	begin := time.Now()
	c.quiet(t, scheduler.Event_OFFERS)
	time.Sleep(want - patience/2)
	offers := c.offers(t)
	if got := time.Since(begin); got < want || got > want+time.Second {
		t.Errorf("offers came after %v, want %v", got, want)
	}
	return offers
}

func TestRefuseSeconds(t *testing.T) {
	running(t, func(t *testing.T, m *EmbeddedMaster) {
		c := subscribe(t, m, info())
		register(t, m, cpuAgent)
		c.decline(t, 30, c.offers(t))
		offers := c.after(t, 30*time.Second)
		// Without a filter the default applies, also to the remainder of an ACCEPT.
		c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{OfferIDs: ids(offers)}})
		offers = c.after(t, 5*time.Second)
		c.decline(t, -1, offers)
		offers = c.after(t, 5*time.Second)
		c.decline(t, 0, offers)
		c.decline(t, 0, c.after(t, 0))
	})
}

func TestReviveAndGrowthEndRefusals(t *testing.T) {
	running(t, func(t *testing.T, m *EmbeddedMaster) {
		c := subscribe(t, m, info())
		a := register(t, m, cpuAgent)
		c.decline(t, 1e9, c.offers(t))
		c.call(t, scheduler.Call_REVIVE)
		c.decline(t, 1e9, c.offers(t))
		m.UpdateTotal(a.id, res("cpus:1;mem:64"))
		time.Sleep(time.Minute)
		c.quiet(t, scheduler.Event_OFFERS)
		m.UpdateTotal(a.id, res("cpus:1;mem:64;gpus:1;gpu_ids:{A}"))
		if got := c.offers(t)[0]; resource.SumScalar(got.Resources, "gpus") != 1 {
			t.Errorf("got %v", got)
		}
	})
}

func TestSuppress(t *testing.T) {
	running(t, func(t *testing.T, m *EmbeddedMaster) {
		f := info()
		f.Roles = []string{"a", "b"}
		c := subscribe(t, m, f)
		c.call(t, scheduler.Call_SUPPRESS)
		register(t, m, cpuAgent)
		time.Sleep(10 * time.Second)
		c.quiet(t, scheduler.Event_OFFERS)
		c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_REVIVE, Revive: &scheduler.Call_Revive{Roles: []string{"b"}}})
		got := c.offers(t)
		if got[0].AllocationInfo.GetRole() != "b" || got[0].Resources[0].AllocationInfo.GetRole() != "b" {
			t.Errorf("got %v, want an offer for role b", got)
		}
		c.decline(t, 0, got)
		c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_SUPPRESS, Suppress: &scheduler.Call_Suppress{Roles: []string{"b", "nonsense"}}})
		got = c.offers(t) // dropped as a whole, as nonsense is no role of the framework
		c.decline(t, 0, got)
		c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_SUPPRESS, Suppress: &scheduler.Call_Suppress{Roles: []string{"b"}}})
		time.Sleep(10 * time.Second)
		c.quiet(t, scheduler.Event_OFFERS)
	})
}

func TestUpdateTotalRescinds(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, gpuAgent)
	old := c.offers(t)
	m.UpdateTotal(a.id, res(cpuAgent+";gpus:1;gpu_ids:{B}"))
	if got := c.event(t, scheduler.Event_RESCIND).Rescind.OfferID; got != old[0].ID {
		t.Errorf("got %v, want %v", got, old[0].ID)
	}
	got := c.offers(t)[0]
	if resource.SumScalar(got.Resources, "gpus") != 1 || !resource.Contains(resource.Unallocate(got.Resources), res("gpu_ids:{B}")) {
		t.Errorf("got %v", got.Resources)
	}
	m.UpdateTotal(a.id, []mesos.Resource{{Name: "cpus"}}) // invalid: ignored
	c.quiet(t, scheduler.Event_RESCIND)
}

func TestGPUAgentsNeedTheCapability(t *testing.T) {
	m := New(MasterConfig{})
	plain := info()
	plain.Capabilities = plain.Capabilities[:1] // MULTI_ROLE alone
	without, with := subscribe(t, m, plain), subscribe(t, m, info())
	register(t, m, gpuAgent)
	with.offers(t)
	without.quiet(t, scheduler.Event_OFFERS)
}

func TestSingleRoleFramework(t *testing.T) {
	m := New(MasterConfig{})
	f := &mesos.FrameworkInfo{User: "root", Name: "old"}
	c := subscribe(t, m, f)
	a := register(t, m, cpuAgent)
	offers := c.offers(t)
	if offers[0].AllocationInfo != nil || offers[0].Resources[0].AllocationInfo != nil {
		t.Errorf("a framework that is not MULTI_ROLE got allocation infos: %v", offers)
	}
	c.accept(t, 0, offers, launch(taskInfo("t", a.id, "cpus:1")))
	if r := a.nextRun(t); r.task.Resources[0].AllocationInfo.GetRole() != "*" {
		t.Errorf("the master did not allocate what it launches: %v", r.task.Resources)
	}
}

func TestTwoFrameworksTakeTurns(t *testing.T) {
	m := New(MasterConfig{})
	one, two := subscribe(t, m, info()), subscribe(t, m, info())
	register(t, m, gpuAgent)
	for range 3 {
		one.decline(t, 0, one.offers(t))
		m.withLock(m.allocateAll)
		two.decline(t, 0, two.offers(t))
		m.withLock(m.allocateAll)
	}
	one.decline(t, 0, one.offers(t))
}
