package translate

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/marathon"
)

// Labels with longer names or values are not in the environment, as in Marathon.
const (
	maxLabelValue = 512
	labelPrefix   = "MARATHON_APP_LABEL_"
	maxLabelName  = maxLabelValue - len(labelPrefix)
)

var nonVariableChars = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// buildEnvironment returns the variables that Marathon sets before a task is placed. The
// app's own variables take precedence, as in Marathon.
func buildEnvironment(app *marathon.App, version string) map[string]string {
	env := map[string]string{
		"MARATHON_APP_ID":            app.ID,
		"MARATHON_APP_RESOURCE_CPUS": scalaDouble(app.CPUs),
		"MARATHON_APP_RESOURCE_MEM":  scalaDouble(app.MemMiB),
		"MARATHON_APP_RESOURCE_DISK": scalaDouble(app.DiskMiB),
		"MARATHON_APP_RESOURCE_GPUS": strconv.Itoa(app.GPUs),
	}
	if version != "" {
		env["MARATHON_APP_VERSION"] = version
	}
	if app.Container != nil && app.Container.Docker != nil {
		env["MARATHON_APP_DOCKER_IMAGE"] = app.Container.Docker.Image
	}
	labelVariables(env, app.Labels)
	portVariables(env, app)
	for name, v := range app.Env {
		if v.Secret != "" { // job.Spec.Secrets has it
			delete(env, name)
			continue
		}
		env[name] = v.Value
	}
	return env
}

// scalaDouble formats a number as Scala does.
func scalaDouble(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func labelVariables(env, labels map[string]string) {
	var names []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[label]; len(label) < maxLabelName && len(value) < maxLabelValue {
			name := strings.ToUpper(nonVariableChars.ReplaceAllString(label, "_"))
			names = append(names, name)
			env[labelPrefix+name] = value
		}
	}
	env["MARATHON_APP_LABELS"] = strings.Join(names, " ")
}

// portVariables adds the variables of container ports without a host port. Those of host
// ports are set when the task is placed.
func portVariables(env map[string]string, app *marathon.App) {
	var drawn []string
	for i, port := range containerPorts(app) {
		text := strconv.Itoa(port)
		env["PORT"+strconv.Itoa(i)], env["PORT_"+text] = text, text
		if portMappings(app)[i].ContainerPort == 0 {
			drawn = append(drawn, text)
		}
		env["PORTS"] = strings.Join(drawn, ",")
	}
	if len(drawn) > 0 {
		env["PORT"] = drawn[0]
	}
}
