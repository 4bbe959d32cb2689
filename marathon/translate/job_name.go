package translate

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// versionLayout are written by Marathon's clock, in UTC with milliseconds.
const versionLayout = "2006-01-02T15:04:05.000Z"

// maxJobName is the length of a job's name.
const maxJobName = 63

// JobName is the name of the job that runs a version of an app: group_app.k1x2y3z4.
// What is too long, or has a version that is no time, ends with a hash instead,
// in capitals, which no id has. A version that is empty adds nothing: such a
// definition was never deployed.
//
// The ids of apps have no underscores and the short versions no dots, so that
// different apps and versions have different names, and those with a hash for
// all that can be known of it.
func JobName(id, version string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(id, "/"), "/", "_")
	if short, ok := shortVersion(version); ok && len(name+short) <= maxJobName {
		return name + short
	}
	sum := sha256.Sum256([]byte(id + "\x00" + version))
	hash := "." + base32.StdEncoding.EncodeToString(sum[:])[:26] // 130 bits
	return name[:min(len(name), maxJobName-len(hash))] + hash
}

func shortVersion(version string) (text string, ok bool) {
	if version == "" {
		return "", true
	}
	t, err := time.Parse(versionLayout, version)
	if err != nil || t.UnixMilli() < 0 || t.Format(versionLayout) != version {
		return "", false
	}
	return "." + strconv.FormatInt(t.UnixMilli(), 36), true
}

// AppOf is the app and the version that a job runs; not ok where it is another's.
func AppOf(spec *job.Spec) (id, version string, ok bool) {
	id, version = spec.Labels[marathon.AppLabel], spec.Labels[marathon.VersionLabel]
	ok = id != "" && version != "" && spec.Group == id && spec.Name == JobName(id, version)
	return id, version, ok
}
