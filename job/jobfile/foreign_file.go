package jobfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// batchOption matches a line with options of a batch system in a script.
var batchOption = regexp.MustCompile(`(?m)^#(?:SBATCH|PBS|BSUB)[ \t]+(.*)$`)

// rejectScript returns an error with the equivalent command if the text is a script. A job file may start with #! too: it is
// a script if it is no mapping.
func rejectScript(text []byte, name string, docs []*yaml.Node, parseError error) error {
	isMapping := parseError == nil && len(docs) > 0 && docs[0].Content[0].Kind == yaml.MappingNode
	if !batchOption.Match(text) && (isMapping || !bytes.HasPrefix(text, []byte("#!"))) {
		return nil
	}
	folder, script := filepath.Split(name)
	if strings.Contains(name, " ") { // not a path: standard input, or the body of a request
		folder, script = "", "job.sh"
	}
	if folder == "" {
		folder = "."
	}
	words := append([]string{"mesos-gpu run -w", folder}, translateBatchOptions(text)...)
	return fmt.Errorf("this is a script, not a job file: %s -- bash %s", strings.Join(words, " "), script)
}

// translateBatchOptions returns the flags of mesos-gpu run for the common options of Slurm in a script.
func translateBatchOptions(text []byte) (flags []string) {
	for _, line := range batchOption.FindAllSubmatch(text, -1) {
		words := strings.FieldsFunc(string(line[1]), func(r rune) bool { return r == ' ' || r == '=' || r == '\t' })
		if len(words) < 2 {
			continue
		}
		value := words[1]
		switch words[0] {
		case "-J", "--job-name":
			flags = append(flags, "--name", value)
		case "-n", "--ntasks":
			flags = append(flags, "--tasks", value)
		case "-c", "--cpus-per-task":
			flags = append(flags, "--cpus", value)
		case "-G", "--gpus", "--gpus-per-task", "--gpus-per-node", "--gres":
			parts := strings.Split(strings.TrimPrefix(value, "gpu:"), ":")
			flags = append(flags, "--gpus", parts[len(parts)-1])
			if len(parts) == 2 {
				flags = append(flags, "--gpu-type", parts[0])
			}
		case "--mem":
			if size := suggestUnit(value); size != "" {
				value = size[strings.LastIndexByte(size, ' ')+1:] // Slurm's units are binary
			}
			flags = append(flags, "--mem", value)
		case "-t", "--time":
			if minutesAndSeconds.MatchString(value) {
				value = "00:" + value
			} else if _, err := ParseDuration(value); err != nil {
				value += "m"
			}
			flags = append(flags, "--timeout", value)
		}
	}
	return flags
}

// rejectForeignFile returns an error at the root of a file of another system, with the way to a job file, or nil.
func rejectForeignFile(root *yaml.Node) error {
	kind, services := findValue(root, "kind"), findValue(root, "services")
	switch {
	case kind != nil && findValue(root, "apiVersion") != nil:
		return errorAt(kind, "this is a manifest of Kubernetes, of the kind %s: a job file has the container's image, command, env and ports as its own keys, "+
			"gpus instead of nvidia.com/gpu, and tasks instead of replicas; see mesos-gpu explain", kind.Value)
	case services != nil && services.Kind == yaml.MappingNode && findValue(root, "command") == nil:
		var names []string
		for i := 0; i < len(services.Content) && i < 2*maxMistakes; i += 2 {
			names = append(names, services.Content[i].Value)
		}
		return errorAt(services, "this is a compose file: write a job for each service (%s), with its image, command, volumes and ports, "+
			"env instead of environment, and lines with --- between the jobs; see mesos-gpu explain", strings.Join(names, ", "))
	case findValue(root, "id") != nil && (findValue(root, "cmd") != nil || findValue(root, "instances") != nil):
		return errorAt(root, "this is an app of Marathon: mesos-gpu marathon translate FILE prints it as a job file")
	}
	return nil
}
