package jobs

import (
	"fmt"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/term"
)

// printConnectionLosses prints a line when the connection of a stream is lost and when it
// is restored, until the caller calls stop. Another goroutine writes them, so to must
// serialize writes.
func printConnectionLosses(c *client.Client, to *syncWriter) (stop func()) {
	c.ObserveConnection(func(cause error) { fmt.Fprint(to, connectionNotice(cause)) })
	return func() { c.ObserveConnection(nil) }
}

func connectionNotice(cause error) string {
	if cause == nil {
		return "mesos-gpu: connected again\n"
	}
	return fmt.Sprintf("mesos-gpu: connection lost, retrying: %s\n", term.EscapeControls(cause.Error()))
}
