package translate

import (
	"crypto/rand"
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
	name := baseName(id)
	if short, ok := shortVersion(version); ok && len(name+short) <= maxJobName {
		return name + short
	}
	sum := sha256.Sum256([]byte(id + "\x00" + version))
	return suffixedName(id, base32.StdEncoding.EncodeToString(sum[:])[:suffixLength])
}

// RandomJobName returns another name for a job of the app, which no user can predict. It is
// for a version whose JobName is the name of a job that is not the app's.
func RandomJobName(id string) string { return suffixedName(id, rand.Text()) }

func baseName(id string) string {
	return strings.ReplaceAll(strings.TrimPrefix(id, "/"), "/", "_")
}

// suffixLength is the length of hashes and of rand.Text in names: 130 bits.
const suffixLength = 26

// suffixedName returns the beginning of the app's name with a suffix of suffixLength capitals
// and digits.
func suffixedName(id, suffix string) string {
	name := baseName(id)
	return name[:min(len(name), maxJobName-1-suffixLength)] + "." + suffix
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

// AppOf returns the app and the version that a job runs, by its labels. ok is false for any
// other job: one that a user submitted, or whose group or name is not that of the app's jobs.
// Requests cannot set the labels (job.Spec.CheckReserved), but a journal may contain such jobs
// of users from before these were reserved.
func AppOf(spec *job.Spec) (id, version string, ok bool) {
	id, version = spec.Labels[marathon.AppLabel], spec.Labels[marathon.VersionLabel]
	ok = id != "" && version != "" && spec.Owner == "" && spec.Group == id && isJobName(spec.Name, id, version)
	return id, version, ok
}

func isJobName(name, id, version string) bool {
	suffix := name[strings.LastIndexByte(name, '.')+1:]
	return name == JobName(id, version) || len(suffix) == suffixLength && name == suffixedName(id, suffix)
}
