package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
	"mesos-gpu/job/editdistance"
)

// maxListedKeys is the largest number of known keys that an error lists. Those of a whole job file are more.
const maxListedKeys = 30

// unknownKey returns an error that names the key that was probably meant, or else the
// known keys or the command that lists them.
func unknownKey(key *yaml.Node, known []string) *lineError {
	best := closestKey(key.Value, known)
	switch {
	case best != "":
		e := errorAt(key, "unknown key %q; did you mean %q?", key.Value, best)
		e.key = best
		return e
	case slices.Contains(known, "parameters") && slices.Contains(job.DockerOptions(), normalizeWord(key.Value, "-")):
		return errorAt(key, "unknown key %q; as an option of docker run it is one of parameters: [\"%s=…\"]", key.Value, normalizeWord(key.Value, "-"))
	case len(known) > maxListedKeys:
		return errorAt(key, "unknown key %q: see mesos-gpu explain", key.Value)
	}
	e := errorAt(key, "unknown key %q", key.Value)
	e.known = strings.Join(known, ", ")
	return e
}

// CheckKeys returns the first key of a mapping that is not known, with an error that names the most similar known key, or
// else all of them. Other nodes have no keys.
func CheckKeys(n *yaml.Node, known []string) (*yaml.Node, error) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		key := n.Content[i]
		if slices.Contains(known, key.Value) {
			continue
		}
		if near := editdistance.Nearest(key.Value, known); near != "" {
			return key, fmt.Errorf("unknown key %q; did you mean %q?", key.Value, near)
		}
		return key, fmt.Errorf("unknown key %q: want %s", key.Value, strings.Join(known, ", "))
	}
	return nil, nil
}

// maxKey bounds the work: no key is longer.
const maxKey = 64

// closestKey returns the known key that a word was probably meant to be, or "": the
// same but for case and dashes, a synonym of another system, or a misspelt key.
func closestKey(word string, known []string) string {
	if len(word) > maxKey {
		return ""
	}
	for _, k := range known {
		if normalizeWord(k, "") == normalizeWord(word, "") {
			return k
		}
	}
	others := keySynonyms()
	for _, k := range known {
		if slices.Contains(others[k], normalizeWord(word, "")) {
			return k
		}
	}
	return editdistance.Nearest(strings.ToLower(word), known)
}

// normalizeWord returns a word in lower case with its parts joined by between.
func normalizeWord(word, between string) string {
	return strings.NewReplacer("_", between, "-", between).Replace(strings.ToLower(word))
}

// keySynonyms are the names that Docker, Kubernetes, Slurm and other systems use for
// our keys, in lower case and without dashes.
func keySynonyms() map[string][]string {
	return map[string][]string{
		"name":        {"jobname", "title", "id"},
		"tasks":       {"replicas", "instances", "ntasks", "count", "parallelism", "completions", "scale", "nodes", "nnodes", "numnodes"},
		"matrix":      {"array", "sweep"},
		"gpus":        {"gpu", "gpucount", "numgpus", "ngpus", "gres", "nvidia.com/gpu", "gpuspertask", "gpuspernode", "ntaskspernode", "taskspernode"},
		"gpu_type":    {"gpumodel", "gputypes", "gpuproduct"},
		"gpu_mem":     {"gpumemory", "vram"},
		"gpu_uuid":    {"gpuids", "deviceids", "gpuuuids"},
		"constraints": {"nodeselector", "affinity", "constraint", "placement"},
		"cpus":        {"cpu", "cpuspertask", "ncpus", "cores", "vcpus"},
		"mem":         {"memory", "ram", "memorylimit", "mempertask"},
		"memory":      {"mem", "ram", "gpumem", "vram"},
		"cores":       {"compute", "percent"},
		"disk":        {"storage", "ephemeralstorage"},
		"limits":      {"resources"},
		"command":     {"cmd", "args", "argv", "run", "script", "exec"},
		"env":         {"environment", "envs", "variables", "vars"},
		"secrets":     {"secret"},
		"workdir":     {"workingdir", "workingdirectory", "cwd", "chdir"},
		"fetch":       {"uris", "files", "download"},
		"artifacts":   {"outputs", "results"},
		"uri":         {"url"},
		"image":       {"containerimage", "dockerimage"},
		"container":   {"containerizer", "runtime", "containerport"},
		"volumes":     {"volume", "mounts", "volumemounts", "mount", "binds"},
		"source":      {"src", "hostpath", "from"},
		"target":      {"dst", "destination", "containerpath", "mountpath"},
		"read_only":   {"ro"},
		"host":        {"hostport", "published"},
		"network":     {"net", "networkmode", "networks"},
		"ports":       {"publish", "expose", "port", "numports"},
		"force_pull":  {"pull", "imagepullpolicy", "alwayspull"},
		"pull_secret": {"imagepullsecret", "imagepullsecrets", "pullconfig", "registryauth"},
		"shm_size":    {"shm"},
		"user":        {"uid", "runasuser"},
		"labels":      {"annotations", "label", "tags"},
		"health_check": {
			"healthcheck", "healthchecks", "livenessprobe", "liveness", "probe",
		},
		"check":       {"readinessprobe"},
		"service":     {"restart", "restartpolicy", "daemon"},
		"role":        {"partition", "queue", "namespace", "account"},
		"priority":    {"qos", "priorityclassname", "nice"},
		"preemptible": {"preemptable", "spot"},
		"guaranteed":  {"nonpreemptible", "uninterruptible"},
		"retries":     {"backofflimit", "maxretries", "requeue", "attempts", "retry"},
		"timeout":     {"time", "timelimit", "walltime", "activedeadlineseconds", "deadline"},
		"after":       {"dependson", "dependency", "dependencies", "depends", "needs"},
		"schedule":    {"cron", "every"},
		"time_zone":   {"tz"},
		"kill_grace":  {"stopgraceperiod", "stoptimeout", "terminationgraceperiodseconds", "graceperiod"},
	}
}
