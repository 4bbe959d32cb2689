package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"mesos-gpu/framework/sched/quota"
)

// WatchQuotas reads the quotas of Mesos now and every ListInterval, until ctx ends, and passes each change to emit. It then
// returns nil. Mesos has no event for them.
func (c *Client) WatchQuotas(ctx context.Context, emit func([]quota.MesosQuota)) error {
	var last []quota.MesosQuota
	said := ""
	for {
		began := time.Now()
		quotas, err := c.ListQuotas(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !reflect.DeepEqual(quotas, last):
			last, said = quotas, ""
			emit(quotas)
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			c.cfg.Log.WithError(err).Debug("no list of roles")
		}
		_, pause := listPauses(c.cfg.ListInterval, took)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// ListQuotas returns the quotas of GPUs that operators of Mesos have set, sorted as the master sorts roles. A master before
// Mesos 1.9 has no limits. The master omits roles that the scheduler's principal may not view.
func (c *Client) ListQuotas(ctx context.Context) ([]quota.MesosQuota, error) {
	leader, err := c.currentLeader(ctx)
	if err != nil {
		return nil, err
	}
	body, err := c.cfg.getBody(ctx, c.operatorClient, leader+"/roles")
	var moved *statusError
	if errors.As(err, &moved) && moved.code == http.StatusTemporaryRedirect {
		if leader, err = redirectTarget(leader, moved.location); err == nil {
			body, err = c.cfg.getBody(ctx, c.operatorClient, leader+"/roles")
		}
	}
	var quotas []quota.MesosQuota
	if err == nil {
		quotas, err = decodeQuotas(body)
	}
	if err != nil {
		return nil, fmt.Errorf("list the roles of master %s: %w", leader, err)
	}
	return quotas, nil
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
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
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
