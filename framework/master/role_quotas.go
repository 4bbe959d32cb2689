package master

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"mesos-gpu/framework/sched/quota"
)

// WatchQuotas reads the quotas of Mesos now and every listInterval, until ctx ends, and passes each change to emit. It then
// returns nil. Mesos has no event for them.
func (c *Client) WatchQuotas(ctx context.Context, emit func([]quota.MesosQuota)) error {
	var last []quota.MesosQuota
	deliver := func(quotas []quota.MesosQuota) {
		if !reflect.DeepEqual(quotas, last) {
			last = quotas
			emit(quotas)
		}
	}
	return repeatList(ctx, &c.cfg, "roles", c.ListQuotas, deliver, func(_, most time.Duration) bool {
		select {
		case <-time.After(most):
			return true
		case <-ctx.Done():
			return false
		}
	})
}

// ListQuotas returns the quotas of GPUs that operators of Mesos have set, sorted as the master sorts roles. A master before
// Mesos 1.9 has no limits. The master omits roles that the scheduler's principal may not view.
func (c *Client) ListQuotas(ctx context.Context) ([]quota.MesosQuota, error) {
	var quotas []quota.MesosQuota
	err := c.callLeader(ctx, "list the roles of", func(leader string) error {
		body, err := c.cfg.getBody(ctx, c.operatorClient, leader+"/roles")
		if err == nil {
			quotas, err = decodeQuotas(body)
		}
		return err
	})
	return quotas, err
}

// decodeQuotas returns the roles of a master's list that have a limit of GPUs.
func decodeQuotas(body []byte) (quotas []quota.MesosQuota, err error) {
	var list struct {
		Roles []struct {
			Name  string          `json:"name"`
			Quota json.RawMessage `json:"quota"`
		} `json:"roles"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for _, r := range list.Roles {
		var q struct{ Limit, Guarantee, Consumed map[string]float64 }
		if json.Unmarshal(r.Quota, &q) != nil {
			continue // of a master before Mesos 1.9
		}
		if limit, ok := q.Limit["gpus"]; ok {
			quotas = append(quotas, quota.MesosQuota{Role: r.Name, Limit: int(limit), Guarantee: int(q.Guarantee["gpus"]), Used: int(q.Consumed["gpus"])})
		}
	}
	return quotas, nil
}

// getBody returns the body of a GET, which has at most maxAnswerBytes.
func (c *ConnectionConfig) getBody(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	c.Credential.setAuthorization(req)
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, c.addAdvice(readStatusError(res))
	}
	return readAnswer(res.Body)
}
