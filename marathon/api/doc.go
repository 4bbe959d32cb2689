// Package api is Marathon's HTTP interface: /v2 and /ping. It reads requests,
// answers in Marathon's forms and status codes, and streams events. What the
// requests ask for is done by a Service; the package never knows how, and it
// keeps no state but the event streams that are open.
package api
