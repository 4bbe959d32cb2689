package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/job/jobfile"
	"mesos-gpu/job/spell"
)

// nestedKeyDocs say what the keys inside of values are. Those of check are in the
// words of health_check.
func nestedKeyDocs() map[string]string {
	return map[string]string{
		"matrix.include":               "values for combinations that agree with the entry on every axis, else a combination of its own: [{lr: 0.001, seed: 7}]",
		"matrix.exclude":               "combinations to leave out: all that have every value of an entry, as [{lr: 0.1, seed: 3}]",
		"share.memory":                 "memory of each GPU: 4GiB, or 30% of what it has",
		"share.cores":                  "compute of each GPU, in percent from 1 to 100; 0 is no bound",
		"share.gpus":                   "how many GPUs to have such a part of, in place of gpus",
		"gpu_type.include":             "types that will do: one or a list",
		"gpu_type.exclude":             "types that will not do: one or a list",
		"gpu_uuid.include":             "devices that will do, by UUID: one or a list",
		"gpu_uuid.exclude":             "devices that will not do, by UUID: one or a list",
		"limits.cpus":                  "CPUs the task may use where others leave them: a number above cpus, or unlimited",
		"limits.mem":                   "memory the task may use where others leave it: a size above mem, or unlimited",
		"fetch.uri":                    "where the file is: an address such as https://example.org/model.tar.gz, or a path of the agent",
		"fetch.path":                   "its name in the sandbox; left out, the last part of the uri",
		"fetch.extract":                "true: the file is an archive, and is unpacked",
		"fetch.executable":             "true: the file is a program",
		"fetch.cache":                  "true: the agent keeps the file for other tasks",
		"volumes.source":               "a path of the agent, or the name of a volume of its Docker engine",
		"volumes.target":               "the path where the container sees it",
		"volumes.read_only":            "true: the container may not change it",
		"volumes.driver":               "the Docker volume driver of a named volume; left out, the engine's own",
		"ports.name":                   "the port's name, for people and their tools",
		"ports.container":              "the port in a container with a network of its own; left out, the number of the host's",
		"ports.host":                   "the very port of the agent, and the task runs only where it is free; left out, any",
		"ports.protocol":               "tcp or udp; left out, tcp",
		"parameters.key":               "the option of docker run, without its dashes",
		"parameters.value":             "the option's value",
		"health_check.command":         "a list of arguments, or a line for /bin/sh -c, that exits with 0 while the task is well",
		"health_check.http":            "a path such as /health, or {path, port, port_index, tls}: a GET answers 200 to 399 while the task is well",
		"health_check.http.path":       "what to GET; left out, /",
		"health_check.http.port":       "the port as the task knows it; in place of port_index",
		"health_check.http.port_index": "which of the job's ports, from 0 on; left out, the first",
		"health_check.http.tls":        "true: over TLS, whatever the certificate",
		"health_check.tcp":             "a port, or {port} or {port_index}: it takes connections while the task is well",
		"health_check.tcp.port":        "the port as the task knows it; in place of port_index",
		"health_check.tcp.port_index":  "which of the job's ports, from 0 on; left out, the first",
		"health_check.delay":           "wait before the first check",
		"health_check.interval":        "wait between two checks",
		"health_check.timeout":         "how long a check may take",
		"health_check.grace":           "how long failures of a task that starts do not count",
		"health_check.failures":        "how many failures in a row end the task; never: none do",
		"service.backoff":              "the pause before a task is started again",
		"service.backoff_factor":       "by how much the pause grows each time",
		"service.backoff_max":          "the longest pause",
		"service.replace_after":        "how long an agent may be away before its tasks are started elsewhere; never: they wait for it",
		"after.job":                    "the job's name",
		"after.state":                  "finished, ended in whatever way, or failed; left out, finished",
		"schedule.cron":                "minute, hour, day, month and day of the week, as 0 3 * * mon-fri; or @hourly, @daily, @weekly, @monthly, @yearly",
		"schedule.time_zone":           "the zone of these times, as Europe/Berlin; left out, UTC",
		"schedule.overlap":             "while an earlier run has not ended: skip this one, allow both, or replace the earlier; left out, skip",
		"schedule.history":             "how many runs that have ended are kept; left out, 3",
	}
}

// jsonSchema is what parts needs of the JSON Schema of job files.
type jsonSchema struct {
	Properties map[string]jsonSchema `json:"properties"`
	Items      *jsonSchema           `json:"items"`
	AnyOf      []jsonSchema          `json:"anyOf"`
}

// nestedKeys are the keys in a value of the schema.
func (s *jsonSchema) nestedKeys() map[string]jsonSchema {
	if len(s.Properties) > 0 {
		return s.Properties
	}
	if s.Items != nil {
		return s.Items.nestedKeys()
	}
	for i := range s.AnyOf {
		if keys := s.AnyOf[i].nestedKeys(); keys != nil {
			return keys
		}
	}
	return nil
}

// findNestedKey finds a key inside of others, such as health_check.http.port.
func findNestedKey(path string) (jobfile.KeyInfo, error) {
	text, err := jobfile.Schema()
	if err != nil {
		return jobfile.KeyInfo{}, err
	}
	var at jsonSchema
	if err := json.Unmarshal(text, &at); err != nil {
		return jobfile.KeyInfo{}, fmt.Errorf("read the schema of job files: %w", err)
	}
	words := strings.Split(path, ".")
	for i, word := range words {
		keys := at.nestedKeys()
		next, ok := keys[word]
		if !ok {
			return jobfile.KeyInfo{}, unknownNestedKey(strings.Join(words[:i], "."), word, slices.Sorted(maps.Keys(keys)))
		}
		at = next
	}
	doc := path
	if words[0] == "check" {
		doc = "health_" + path
	}
	return jobfile.KeyInfo{Name: path, Doc: nestedKeyDocs()[doc], Parts: slices.Sorted(maps.Keys(at.nestedKeys()))}, nil
}

// unknownNestedKey names the key that was probably meant, or all that there are.
func unknownNestedKey(of, word string, keys []string) error {
	if len(keys) == 0 {
		return fmt.Errorf("%s has no keys inside", of)
	}
	if best := spell.Nearest(word, keys); best != "" {
		return fmt.Errorf("%s has no key %q; did you mean %q?", of, word, of+"."+best)
	}
	return fmt.Errorf("%s has no key %q, but %s", of, word, strings.Join(keys, ", "))
}
