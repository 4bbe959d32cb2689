package jobs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// jobFilter selects jobs by flags, which several commands have.
type jobFilter struct {
	me     bool
	owner  string
	role   string
	states []string
	labels []string
	// name is a pattern of path.Match. Only ps has a flag for it.
	name string
}

// addFilterFlags adds the flags but for that of the name.
func (f *jobFilter) addFilterFlags(c *cobra.Command) {
	set := c.Flags()
	set.BoolVar(&f.me, "me", false, "only my jobs")
	set.StringVar(&f.owner, "owner", "", "only jobs that this user submitted; also --user")
	set.StringVar(&f.role, "role", "", "only jobs of this role")
	set.StringSliceVar(&f.states, "state", nil, "only jobs in these states, such as RUNNING or WAITING,FAILED")
	set.StringSliceVarP(&f.labels, "label", "l", nil, "only jobs with these labels, NAME=VALUE, or NAME for any value")
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "user" {
			name = "owner"
		}
		return pflag.NormalizedName(name)
	})
	cli.CompleteFixed(c, "state", stateNames())
}

// selectsAll reports whether no flag is set.
func (f *jobFilter) selectsAll() bool {
	return !f.me && f.role == "" && len(f.states) == 0 && f.name == "" && f.owner == "" && len(f.labels) == 0
}

func stateNames() []string { return cli.ToStrings(job.States()) }

// validate checks the flags, and converts states to upper case.
func (f *jobFilter) validate() error {
	for i, name := range f.states {
		f.states[i] = strings.ToUpper(name)
		if !slices.Contains(stateNames(), f.states[i]) {
			return &cli.UsageError{Err: fmt.Errorf("--state %s: use %s", name, cli.JoinWithOr(stateNames()))}
		}
	}
	if _, err := path.Match(f.name, ""); err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--name %s: a bracket is not closed", f.name)}
	}
	if f.me && f.owner != "" {
		return &cli.UsageError{Err: errors.New("--me and --owner: use one of them")}
	}
	return nil
}

// query returns the query of the API for the flags. With --me it asks the scheduler for the user's name. Without an access
// file the scheduler knows no users, and all jobs are those of its one user.
func (f *jobFilter) query(ctx context.Context, c *client.Client) (q api.JobQuery, err error) {
	q = api.JobQuery{State: strings.Join(f.states, ","), Role: f.role, Owner: f.owner, Name: f.name, Labels: strings.Join(f.labels, ",")}
	if !f.me {
		return q, nil
	}
	who, err := c.WhoAmI(ctx)
	if err == nil && who.AccessControl && who.User == "" {
		err = errors.New("--me: the scheduler does not know who you are: name a token by --token-file or MESOS_GPU_TOKEN_FILE")
	}
	q.Owner = who.User
	return q, err
}
