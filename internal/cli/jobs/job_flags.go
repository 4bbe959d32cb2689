package jobs

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// jobFlags are the flags that describe a job, one for each job file key. Their values
// are parsed in JobSpec, after all flags are read.
type jobFlags struct {
	values   []*jobFlagValue
	envFiles envFiles
}

// addJobFlags adds the flags of the job file's keys.
func addJobFlags(set *pflag.FlagSet) *jobFlags {
	flags := addFlags(set, jobfile.Flags())
	flags.envFiles.addFlag(set)
	return flags
}

// addEditFlags adds the flags of the keys that can be changed after the submission.
func addEditFlags(set *pflag.FlagSet) *jobFlags { return addFlags(set, jobfile.EditFlags()) }

func addFlags(set *pflag.FlagSet, list []jobfile.Flag) *jobFlags {
	flags := &jobFlags{}
	for _, f := range list {
		v := &jobFlagValue{flag: f}
		flags.values = append(flags.values, v)
		added := set.VarPF(v, f.Name, f.Shorthand, f.Usage)
		if f.Kind == jobfile.BoolFlag {
			added.NoOptDefVal = "true"
		}
	}
	return flags
}

// readEnvironment adds the variables of --env-file to those of --env, and the values of those that are given by name only.
func (f *jobFlags) readEnvironment(getenv func(string) string) (err error) {
	for _, v := range f.values {
		if v.flag.Name == "env" {
			v.texts, err = f.envFiles.assignments(v.texts, getenv)
		}
	}
	return err
}

// given returns the texts that each flag was given, by its name.
func (f *jobFlags) given() map[string][]string {
	given := map[string][]string{}
	for _, v := range f.values {
		given[v.flag.Name] = v.texts
	}
	return given
}

// JobSpec returns the job that the flags describe, with the user's defaults, which may be nil, and those of keys. It returns
// a UsageError if the flags do not describe a valid job.
func (f *jobFlags) JobSpec(command []string, defaults *jobfile.Defaults) (*job.Spec, error) {
	spec := &job.Spec{Command: command}
	if err := defaults.ApplyTo(spec, f.given()); err != nil {
		return nil, err
	}
	if err := jobfile.ApplyFlags(spec, f.given()); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	if h := spec.HealthCheck; h != nil {
		if n := countTrue(len(h.Command) > 0, h.HTTP != nil, h.TCP != nil); n != 1 {
			return nil, &cli.UsageError{Err: fmt.Errorf("a health check is one of --health-cmd, --health-http and --health-tcp: %d are given", n)}
		}
	}
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("run-%06x", rand.N(1<<24))
	}
	if err := spec.Complete(); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	return spec, resolveChdir(spec)
}

func countTrue(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// jobFlagValue collects the values of one flag, in the syntax of the job file.
type jobFlagValue struct {
	flag  jobfile.Flag
	texts []string
}

func (v *jobFlagValue) Type() string { return string(v.flag.Kind) }

func (v *jobFlagValue) String() string {
	if len(v.texts) > 0 {
		return strings.Join(v.texts, ",")
	}
	return v.flag.Default
}

// Set rejects a value of the wrong type, as the flags of package pflag do.
func (v *jobFlagValue) Set(text string) error {
	var err error
	switch v.flag.Kind {
	case jobfile.IntFlag:
		var n int64
		n, err = strconv.ParseInt(text, 0, 64)
		text = strconv.FormatInt(n, 10)
	case jobfile.FloatFlag:
		_, err = strconv.ParseFloat(text, 64)
	case jobfile.BoolFlag:
		var b bool
		b, err = strconv.ParseBool(text)
		text = strconv.FormatBool(b)
	case jobfile.DurationFlag:
		var d time.Duration
		d, err = jobfile.ParseDuration(text)
		text = d.String()
	case jobfile.ListFlag:
		v.texts = append(v.texts, strings.Split(text, ",")...)
		return nil
	case jobfile.RepeatedFlag:
		v.texts = append(v.texts, text)
		return nil
	}
	v.texts = []string{text}
	return err
}
