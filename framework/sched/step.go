package sched

import "time"

// Step applies one event and returns the resulting operations, in order. The caller records what TakeChanges returns
// before it performs them.
func (s *State) Step(now time.Time, ev Event) []Operation {
	s.now = now
	var ops []Operation
	switch e := ev.(type) {
	case Subscribed:
		ops = s.handleSubscribed(e)
	case Disconnected:
		s.handleDisconnected()
	case OffersReceived:
		s.addOffers(e.Offers)
	case InverseOffersReceived:
		ops = s.answerInverseOffers(e.Offers)
	case OfferRescinded:
		s.rescindOffer(e.OfferID)
	case TaskUpdate:
		ops = s.handleTaskUpdate(e)
	case SubmitJob:
		s.submitJob(e)
	case KillJob:
		ops = s.killJob(e)
	case EditJob:
		s.editJob(e)
	case HoldJob:
		s.holdJob(e)
	case ReleaseJob:
		s.releaseJob(e)
	case RequeueJob:
		ops = s.requeueJob(e)
	case HoldJobsOf:
		ops = s.holdJobsOf(e)
	case ReleaseJobsOf:
		s.releaseJobsOf(e)
	case ForgetJob:
		s.forgetRuns(e.Job)
	case ScaleService:
		ops = s.scaleService(e)
	case UpdateService:
		ops = s.updateService(e)
	case StopTasks:
		ops = s.stopTasks(e)
	case ClientConnected:
		s.countClients(e.Job, 1)
	case ClientDisconnected:
		s.countClients(e.Job, -1)
	case EndBackoff:
		s.endBackoff(e)
	case PutDocument:
		if validateDocument(e.Key, e.Value) == nil {
			s.writeDocument(e.Key, e.Value)
		}
	case AcceptFailed:
		s.handleAcceptFailed(e.TaskIDs)
	case AgentsListed:
		s.setAgents(e.Agents)
	case BudgetUsageMeasured:
		s.setBudgetUsage(e)
	case MesosQuotasListed:
		s.setMesosQuotas(e.Quotas)
	case OperationUpdated:
		if len(e.UUID) > 0 {
			ops = []Operation{AcknowledgeOperation(e)}
		}
	case AgentInspected:
		ops = s.handleAgentInspected(e)
	case AgentLost:
		s.loseAgent(e.AgentID)
	case PolicyChanged:
		ops = s.setPolicy(e.Policy)
	case AttemptsAccounted:
		s.handleAccounted(e.TaskIDs)
	case NotificationsAttempted:
		for _, r := range e.Results {
			s.notifications.recordResult(r, now)
		}
	case GPUDutiesMeasured:
		s.notifyIdleGPUs(e)
	case RetryNotification:
		s.notifications.retry(e.ID, now)
	case DropNotification:
		s.notifications.remove(e.ID)
	case CountersChanged:
		s.writeDocument(CountersKey, e.Value)
	case CordonHost:
		ops = s.cordonHost(e)
	case UncordonHost:
		s.uncordonHost(e)
	case SetQuota:
		s.setQuota(e)
	case Tick:
		ops = s.handleTick()
	case Cycle:
		ops = s.placeWaiting()
	}
	s.reviveDue = time.Time{}
	if s.connected {
		s.endReturnsToIdle()
		var calls []Operation
		calls, s.reviveDue = s.offerDemands.reviveOrSuppress(now, s.roleNames())
		ops = append(ops, calls...)
	}
	return ops
}

// ReviveDue returns when offers to a role with new demand may be revived: any event from then on revives them. It is
// zero if no REVIVE was postponed.
func (s *State) ReviveDue() time.Time { return s.reviveDue }
