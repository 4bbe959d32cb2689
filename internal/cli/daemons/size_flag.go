package daemons

import (
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"mesos-gpu/job/jobfile"
)

// addSizeFlag adds a flag that takes a size as job files do.
func addSizeFlag(f *pflag.FlagSet, mib *int64, name string, value int64, usage string) {
	*mib = value
	f.Var((*sizeFlag)(mib), name, usage)
}

// sizeFlag is a size in MiB, rounded up.
type sizeFlag int64

func (s *sizeFlag) String() string { return strconv.FormatInt(int64(*s), 10) }
func (s *sizeFlag) Type() string   { return "size" }

func (s *sizeFlag) Set(text string) error {
	mib, err := jobfile.ParseSize(text)
	*s = sizeFlag(math.Ceil(math.Min(mib, 1<<40)))
	return err
}
