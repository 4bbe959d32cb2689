package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/internal/cli"
)

func (a *clusterCommands) whoAmICommand() *cobra.Command {
	c := &cobra.Command{
		Use: "whoami", Short: "Show which user the scheduler takes you for, and what you may do", Args: cli.RequireArgs(),
		Long: "Show which user the scheduler takes you for, and what you may do: on which roles you may submit, operate and view jobs.\n" +
			"Each permission includes the ones after it, and each role the roles below it. The exit status is 1 if the scheduler does not know you.",
		RunE: a.WithClient(func(ctx context.Context, scheduler *client.Client, _ []string) error {
			who, err := scheduler.WhoAmI(ctx)
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(who)
			}
			return a.printIdentity(&who)
		}),
	}
	a.AddOutputFlag(c)
	return c
}

func (a *clusterCommands) printIdentity(who *api.RequesterIdentity) error {
	switch {
	case !who.AccessControl:
		_, err := fmt.Fprintf(a.Stdout, "the scheduler at %s has no access file: it knows no users, and everybody may do everything\n", a.APIAddress)
		return err
	case !who.Authenticated:
		return errors.New("the scheduler at " + a.APIAddress + " does not know you: " + cli.TokenAdvice)
	}
	fmt.Fprintf(a.Stdout, "%s at %s\n", who.User, a.APIAddress)
	if len(who.Permissions) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "no permission on any role: the operator's access file gives some")
		return err
	}
	for permission := access.Admin; permission > access.None; permission-- {
		var roles []string
		for _, p := range who.Permissions {
			if p.Permission == permission.String() {
				roles = append(roles, p.Roles...)
			}
		}
		slices.Sort(roles)
		switch {
		case len(roles) == 0:
			continue
		case slices.Contains(roles, admission.AllRoles):
			roles = []string{"all roles"}
		}
		fmt.Fprintf(a.Stdout, "%-7s  %s\n", permission, strings.Join(slices.Compact(roles), ", "))
	}
	return nil
}
