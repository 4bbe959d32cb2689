// Package api serves Marathon's HTTP API: /v2 and /ping. It reads requests, answers in
// Marathon's forms and status codes, and streams events. An AppService executes the requests.
// The package has no state except the open event streams.
package api
