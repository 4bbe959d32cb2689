package master

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/quota"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/minimesos/resource"
)

func schedule(windows ...maintenance.Window) *operator.Call {
	return &operator.Call{Type: operator.Call_UPDATE_MAINTENANCE_SCHEDULE, UpdateMaintenanceSchedule: &operator.Call_UpdateMaintenanceSchedule{
		Schedule: maintenance.Schedule{Windows: windows},
	}}
}

func window(hostname string, start int64) maintenance.Window {
	return maintenance.Window{
		MachineIDs:     []mesos.MachineID{{Hostname: proto.String(hostname)}},
		Unavailability: mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: start}},
	}
}

func (c *masterClient) answerInverse(t *testing.T, accept bool, id mesos.OfferID, refuse float64) {
	t.Helper()
	ids, filters := []mesos.OfferID{id}, &mesos.Filters{RefuseSeconds: &refuse}
	call := &scheduler.Call{
		Type:                 scheduler.Call_DECLINE_INVERSE_OFFERS,
		DeclineInverseOffers: &scheduler.Call_DeclineInverseOffers{InverseOfferIDs: ids, Filters: filters},
	}
	if accept {
		call = &scheduler.Call{
			Type:                scheduler.Call_ACCEPT_INVERSE_OFFERS,
			AcceptInverseOffers: &scheduler.Call_AcceptInverseOffers{InverseOfferIDs: ids, Filters: filters},
		}
	}
	c.post(t, http.StatusAccepted, call)
}

func TestInverseOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(MasterConfig{})
		c := subscribe(t, m, info())
		a := register(t, m, cpuAgent)
		operate(t, m, http.StatusBadRequest, schedule(maintenance.Window{MachineIDs: []mesos.MachineID{{}}}))
		onAgent(t, m, c, a, "t")
		m.withLock(m.allocateAll)
		c.offers(t)

		operate(t, m, http.StatusOK, schedule(window("127.0.0.1", 42), window("elsewhere", 43)))
		c.event(t, scheduler.Event_RESCIND)
		if got := c.offers(t)[0].Unavailability; got == nil || got.Start.Nanoseconds != 42 {
			t.Errorf("an offer of the agent says %v of its maintenance", got)
		}
		asked := c.event(t, scheduler.Event_INVERSE_OFFERS).InverseOffers.InverseOffers[0]
		if *asked.AgentID != a.id || asked.Unavailability.Start.Nanoseconds != 42 {
			t.Errorf("inverse offer %v", asked)
		}
		m.withLock(m.allocateAll)
		c.quiet(t, scheduler.Event_INVERSE_OFFERS)
		c.answerInverse(t, false, asked.OfferID, 30)
		m.withLock(m.allocateAll)
		c.quiet(t, scheduler.Event_INVERSE_OFFERS)
		time.Sleep(30 * time.Second)
		m.withLock(m.allocateAll)
		c.answerInverse(t, true, c.event(t, scheduler.Event_INVERSE_OFFERS).InverseOffers.InverseOffers[0].OfferID, 30)

		// When a window is removed, its inverse offer is rescinded.
		operate(t, m, http.StatusOK, schedule(window("127.0.0.1", 44)))
		asked = c.event(t, scheduler.Event_INVERSE_OFFERS).InverseOffers.InverseOffers[0]
		operate(t, m, http.StatusOK, schedule())
		if got := c.event(t, scheduler.Event_RESCIND_INVERSE_OFFER).RescindInverseOffer.InverseOfferID; got != asked.OfferID {
			t.Errorf("rescinded %s, want %s", got.Value, asked.OfferID.Value)
		}
		c.answerInverse(t, true, asked.OfferID, 0) // too late, and no harm
	})
}

func TestQuotaLimits(t *testing.T) {
	m := New(MasterConfig{})
	roles := info()
	roles.Roles = []string{"research"}
	c := subscribe(t, m, roles)
	register(t, m, gpuAgent)
	c.offers(t)
	limit := func(role string, gpus float64) *operator.Call {
		return &operator.Call{Type: operator.Call_UPDATE_QUOTA, UpdateQuota: &operator.Call_UpdateQuota{
			QuotaConfigs: []quota.QuotaConfig{{Role: role, Limits: map[string]mesos.Value_Scalar{"gpus": {Value: gpus}}}},
		}}
	}
	operate(t, m, http.StatusBadRequest, limit("-", 1))
	for _, gpus := range []float64{0, 1} {
		operate(t, m, http.StatusOK, limit("research", gpus))
		c.event(t, scheduler.Event_RESCIND)
		if got := resource.SumScalar(c.offers(t)[0].Resources, "gpus"); got != gpus {
			t.Errorf("a role with a limit of %v GPUs is offered %v", gpus, got)
		}
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/roles", nil))
		want := fmt.Sprintf(`{"roles":[{"name":"research","quota":{"role":"research","guarantee":{},"limit":{"gpus":%v},"consumed":{}}}]}`, gpus)
		if got := strings.TrimSpace(answer.Body.String()); got != want {
			t.Errorf("roles %s, want %s", got, want)
		}
	}
}
