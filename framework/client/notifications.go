package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
)

// ListNotifications lists the notifications that were not delivered, oldest first: those in a state, or all for "".
func (c *Client) ListNotifications(ctx context.Context, state api.NotificationState) ([]api.NotificationView, error) {
	path := "/v1/notifications"
	if state != "" {
		path += "?" + url.Values{"state": {string(state)}}.Encode()
	}
	var answer api.NotificationList
	err := c.getJSON(ctx, path, &answer)
	return answer.Notifications, err
}

// RetryNotification makes the scheduler deliver a notification again at once.
func (c *Client) RetryNotification(ctx context.Context, id string) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/notifications/"+url.PathEscape(id)+"/retry", nil, nil)
}

// DropNotification gives up a notification that was not delivered.
func (c *Client) DropNotification(ctx context.Context, id string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/notifications/"+url.PathEscape(id), nil, nil)
}
