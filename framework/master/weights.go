package master

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	mastercalls "github.com/mesos/mesos-go/api/v1/lib/master/calls"
)

// SetWeights makes MaintainWeights set these weights of roles in Mesos, instead of those of an earlier call. It does not
// wait.
func (c *Client) SetWeights(weights map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.newWeights:
	default:
	}
	c.newWeights <- weights
}

// MaintainWeights sets the weights of each call of SetWeights in Mesos, until ctx ends. It then returns nil. It sets them once: a
// weight that an operator changes later stays. Where the master cannot be reached or refuses, it logs why and tries again. It
// changes nothing while mayAct returns false.
func (c *Client) MaintainWeights(ctx context.Context, mayAct func() bool) error {
	var weights map[string]float64
	var retry <-chan time.Time
	logged := "" // the last error that was logged: it is not repeated with each attempt
	for {
		select {
		case weights = <-c.newWeights:
			logged = ""
		case <-retry:
		case <-ctx.Done():
			return nil
		}
		retry = nil
		if !mayAct() {
			retry = time.After(c.cfg.listInterval)
			continue
		}
		err := c.updateWeights(ctx, weights)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err.Error() != logged {
			logged = err.Error()
			c.cfg.Log.WithError(err).Warn("the weights of roles in Mesos differ from those of the roles file: shares hold, but returned offers leave GPUs idle")
		}
		if retry = time.After(c.cfg.listInterval); hasStatus(err, http.StatusNotImplemented) || failureScopeOf(err) == scopeCall {
			retry = time.After(maxListInterval) // only another configuration of the master helps
		}
	}
}

// updateWeights sets the weights that differ from those of the master. Roles that are not named keep theirs.
func (c *Client) updateWeights(ctx context.Context, weights map[string]float64) error {
	if len(weights) == 0 {
		return nil
	}
	present, err := c.ListWeights(ctx, maps.Keys(weights))
	if err != nil {
		return err
	}
	changes := weightChanges(weights, present)
	if len(changes) == 0 {
		return nil
	}
	err = c.callLeader(ctx, "set the weights "+formatWeights(changes)+" in", func(leader string) error {
		return c.cfg.callAndDecode(ctx, c.operatorClient, leader+"/api/v1", mastercalls.UpdateWeights(changes...), &mastermsg.Response{})
	})
	if err != nil {
		return err
	}
	c.cfg.Log.WithField("weights", formatWeights(changes)).Info("set weights of roles in Mesos")
	return nil
}

// weightChanges returns the wanted weights that differ from the present ones, by name of role.
func weightChanges(wanted, present map[string]float64) (changes []mesos.WeightInfo) {
	for _, role := range slices.Sorted(maps.Keys(wanted)) {
		if present[role] != wanted[role] {
			changes = append(changes, mesos.WeightInfo{Role: &role, Weight: wanted[role]})
		}
	}
	return changes
}

func formatWeights(list []mesos.WeightInfo) string {
	var texts []string
	for _, w := range list {
		texts = append(texts, fmt.Sprintf("%s=%g", w.GetRole(), w.Weight))
	}
	return strings.Join(texts, ", ")
}

// ListWeights returns the weights of roles in Mesos. A role whose weight is not set there has 1, and so has one that the
// scheduler's principal may not view.
func (c *Client) ListWeights(ctx context.Context, roles iter.Seq[string]) (map[string]float64, error) {
	var answer mastermsg.Response
	err := c.callLeader(ctx, "list the weights of", func(leader string) error {
		return c.cfg.callAndDecode(ctx, c.operatorClient, leader+"/api/v1", mastercalls.GetWeights(), &answer)
	})
	if err != nil {
		return nil, err
	}
	weights := map[string]float64{}
	for role := range roles {
		weights[role] = 1
	}
	for _, w := range answer.GetGetWeights().GetWeightInfos() {
		if _, named := weights[w.GetRole()]; named {
			weights[w.GetRole()] = w.Weight
		}
	}
	return weights, nil
}
