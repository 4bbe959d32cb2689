package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func (a *jobCommands) notificationsCommand() *cobra.Command {
	failed := false
	c := a.NewShowCommand("notifications", "List the notifications that were not delivered yet", nil,
		func(ctx context.Context, client *client.Client, _ []string) (cli.CommandResult, error) {
			state := api.NotificationState("")
			if failed {
				state = api.NotificationFailed
			}
			list, err := client.ListNotifications(ctx, state)
			return cli.CommandResult{Data: list, Print: func(p *term.TablePrinter) error { return printNotifications(p, list) }}, err
		})
	c.Flags().BoolVar(&failed, "failed", false, "only those that were given up")
	c.AddCommand(
		a.NewEachCommand("retry", "ID", "notification", "Deliver notifications again at once", "is delivered again", (*client.Client).RetryNotification),
		a.NewEachCommand("drop", "ID", "notification", "Give up notifications", "dropped", (*client.Client).DropNotification),
	)
	return c
}

func printNotifications(p *term.TablePrinter, list []api.NotificationView) error {
	return term.PrintTable(p.DropFirst("EVENT AGE").WithEmptyText("Every notification was delivered."), list, []term.TableColumn[api.NotificationView]{
		{Name: "ID", Value: func(n api.NotificationView) string { return n.ID }},
		{Name: "STATE", Value: func(n api.NotificationView) string { return string(n.State) }},
		{Name: "JOB", Value: func(n api.NotificationView) string { return job.RunID{Name: n.Job, Run: n.Run}.String() }},
		{Name: "EVENT", Value: func(n api.NotificationView) string { return string(n.Event) }},
		{Name: "AGE", Value: func(n api.NotificationView) string { return term.FormatAge(n.Time) }},
		{Name: "TO", Value: func(n api.NotificationView) string { return n.To }},
		{Name: "TRIES", Value: func(n api.NotificationView) string { return fmt.Sprint(n.Attempts) }},
		{Name: "NEXT", Value: func(n api.NotificationView) string { return formatNextAttempt(&n) }},
		{Name: "ERROR", Value: func(n api.NotificationView) string { return term.DashIfEmpty(n.Error) }},
	})
}

// formatNextAttempt returns when the next attempt is due, for example "in 40s".
func formatNextAttempt(n *api.NotificationView) string {
	switch wait := time.Until(n.Next).Round(time.Second); {
	case n.State == api.NotificationFailed:
		return "never"
	case n.Next.IsZero() || wait <= 0:
		return "now"
	default:
		return "in " + wait.String()
	}
}
