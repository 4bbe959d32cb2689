package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
)

// listCommands returns the command that lists existing objects, by the problem code
// of a missing object.
func listCommands() map[api.ProblemCode]string {
	return map[api.ProblemCode]string{
		api.CodeJobNotFound:      "mesos-gpu ps --all",
		api.CodeTaskNotFound:     "mesos-gpu describe JOB",
		api.CodeAgentNotFound:    "mesos-gpu agents",
		api.CodeScheduleNotFound: "mesos-gpu schedules",
	}
}

// joinedErrors returns the parts of an error made by errors.Join, and nil otherwise.
func joinedErrors(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(several.Unwrap()...).Error() {
		return nil
	}
	return several.Unwrap()
}

// AdviseError returns the message of an error with a hint what to do next. It
// advises each part of a joined error in a line of its own.
func AdviseError(err error) string {
	if several := joinedErrors(err); several != nil {
		lines := make([]string, len(several))
		for i, one := range several {
			lines[i] = AdviseError(one)
		}
		return strings.Join(lines, "\n")
	}
	text := err.Error()
	if p := (*api.Problem)(nil); errors.As(err, &p) && strings.HasSuffix(text, p.Detail) {
		if next := listCommands()[p.Code]; next != "" {
			return fmt.Sprintf("%s: see %s", text, next)
		}
	}
	if none := (*client.NoListenerError)(nil); errors.As(err, &none) && strings.HasSuffix(text, none.Error()) {
		return text + ": start mesos-gpu local or mesos-gpu scheduler, or name another by --api or MESOS_GPU_API"
	}
	if u := (*url.Error)(nil); errors.As(err, &u) && !errors.Is(err, context.Canceled) {
		return strings.Replace(text, "ask the scheduler: "+u.Error(), describeUnreachable(u), 1)
	}
	return text
}

// describeUnreachable names the scheduler that did not respond instead of the full
// request.
func describeUnreachable(u *url.Error) string {
	at := u.URL
	if whole, err := url.Parse(u.URL); err == nil {
		at = whole.Scheme + "://" + whole.Host
	}
	if dial := (*net.OpError)(nil); errors.As(u, &dial) && dial.Net == "unix" && dial.Addr != nil {
		at = "unix://" + dial.Addr.String()
	}
	next := "name the right one by --api or MESOS_GPU_API, as http://HOST:8080"
	if errors.As(u, new(*tls.CertificateVerificationError)) {
		next = "name a trusted certificate by --ca or MESOS_GPU_CA"
	}
	return fmt.Sprintf("ask the scheduler at %s: %v: %s", at, u.Err, next)
}

// IsUnknownTask reports whether the task does not exist. A task without output is
// api.CodeLogNotFound instead.
func IsUnknownTask(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeTaskNotFound
}

// DescribeFlagError adds the values that a flag accepts, if its type is known.
func DescribeFlagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	f := bad.GetFlag()
	takes := map[string]string{
		"int":       "a whole number, such as 2",
		"int64":     "a whole number, such as 2",
		"uint":      "a whole number, such as 2",
		"uintSlice": "whole numbers with commas between, such as 31,43",
		"float64":   "a number, such as 0.5",
		"bool":      "true or false",
	}[f.Value.Type()]
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	switch {
	case f.Value.Type() == "duration": // its parser explains more
		return fmt.Errorf("invalid argument for %q flag: %w", name, bad.Unwrap())
	case takes == "":
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("invalid argument %q for %q flag: the number is too large", bad.GetValue(), name)
	}
	return fmt.Errorf("invalid argument %q for %q flag: it takes %s", bad.GetValue(), name, takes)
}
