package daemons

import (
	"time"

	"github.com/spf13/pflag"

	"mesos-gpu/framework"
)

// addArtifactFlags adds the bounds of the store of artifacts, with the defaults of an owner's and all artifacts in MiB, and of the
// time for which they are kept.
func addArtifactFlags(f *pflag.FlagSet, cfg *framework.SchedulerConfig, owner, total int64, keep time.Duration) {
	addSizeFlag(f, &cfg.ArtifactsMiB, "artifacts-size", framework.DefaultArtifactsMiB,
		"maximum size of the artifacts of one task, such as 10GiB; a number without a unit is MiB")
	addSizeFlag(f, &cfg.OwnerArtifactsMiB, "artifacts-owner-size", owner,
		"maximum size of the artifacts of one owner of jobs; more are not copied")
	addSizeFlag(f, &cfg.TotalArtifactsMiB, "artifacts-total-size", total,
		"maximum size of all artifacts; copies wait for a day until there is room")
	addSizeFlag(f, &cfg.OutputMiB, "stored-output", framework.DefaultOutputMiB,
		"how much of the end of each task's output is stored with the artifacts, as long as the job's record; 0: none")
	f.DurationVar(&cfg.KeepArtifacts, "keep-artifacts", keep,
		"how long artifacts are kept after they were copied; 0: until the operator removes them")
}
