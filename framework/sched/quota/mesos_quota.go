package quota

import (
	"fmt"

	"mesos-gpu/job"
)

// MesosQuota is the quota of whole GPUs that an operator of Mesos has set for a role and the roles below it. Mesos offers
// the role no more. It counts the resource gpus only, not shares of devices.
type MesosQuota struct {
	Role string
	// Limit is the number of GPUs that frameworks may use in the role, Guarantee the number that Mesos reserves for it.
	// Used is the number that all frameworks use in it, as the master last reported.
	Limit, Guarantee, Used int
}

// SetMesosQuotas sets the quotas of Mesos, which limit roles in addition to their own quotas.
func (t *Tracker) SetMesosQuotas(quotas []MesosQuota) { t.mesosQuotas = quotas }

// mesosLimitsFor returns the quotas of Mesos that apply to a role, without their usage.
func (t *Tracker) mesosLimitsFor(role string) (list []Limit) {
	for i := range t.mesosQuotas {
		if q := &t.mesosQuotas[i]; IsWithinRole(role, q.Role) {
			list = append(list, Limit{Role: q.Role, Type: AllTypes, OfMesos: true, Max: q.Limit * MilliPerGPU})
		}
	}
	return list
}

// addMesosUsage sets what is used of a quota of Mesos: what the scheduler's tasks hold, and what the master reported
// beyond that.
func (t *Tracker) addMesosUsage(l *Limit) {
	l.Held, l.Ending, l.Reserved = sumOfRoles(t.held, l), sumOfRoles(t.ending, l), sumOfRoles(t.reserved, l)
	for role, milli := range t.shares {
		if IsWithinRole(role, l.Role) {
			l.Held -= milli
		}
	}
	for i := range t.mesosQuotas {
		if q := &t.mesosQuotas[i]; q.Role == l.Role {
			l.HeldByOthers = max(q.Used*MilliPerGPU-l.Held, 0)
		}
	}
}

// MesosQuotaNote returns the sentence to append to a reason why a job with GPUs waits if other frameworks use so much of
// Mesos's quota that Mesos offers the job's role too little for one task. Otherwise it returns "".
func (t *Tracker) MesosQuotaNote(spec *job.Spec) string {
	for _, l := range t.limitsWithUsage(UserOf(spec)) {
		if need := t.milliOf(&spec.Request, &l); l.OfMesos && need > 0 && l.Remaining() >= need && l.Max-l.Held-l.HeldByOthers < need {
			return "; " + l.describe()
		}
	}
	return ""
}

// describeMesosQuota returns what Mesos's quota of a role allows, and what is used of it.
func (l *Limit) describeMesosQuota() string {
	return fmt.Sprintf("Mesos's quota of role %s allows %s, frameworks use %s", l.Role, l, FormatMilliGPUs(l.Held+l.HeldByOthers))
}
