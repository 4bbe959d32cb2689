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

// versionLayout is the format of versions, in UTC with milliseconds.
const versionLayout = "2006-01-02T15:04:05.000Z"

// maxJobName bounds the name of a job.
const maxJobName = 63

// JobName returns the name of the job that runs a version of an app, for example
// group_app.k1x2y3z4. If the name would be too long, or the version is not a time, it ends
// with a hash in capitals, which no id contains. An empty version, of a definition that was
// never deployed, adds nothing.
//
// Ids contain no underscores, and short versions no dots. Different apps and versions
// therefore have different names, except for collisions of the hash.
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

// AppOf returns the app and the version that a job runs. ok is false for any other job.
func AppOf(spec *job.Spec) (id, version string, ok bool) {
	id, version = spec.Labels[marathon.AppLabel], spec.Labels[marathon.VersionLabel]
	ok = id != "" && version != "" && spec.Group == id && spec.Name == JobName(id, version)
	return id, version, ok
}
