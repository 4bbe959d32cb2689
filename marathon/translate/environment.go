package translate

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/marathon"
)

// Marathon puts no label into the environment that is as long as these.
const (
	longestValue = 512
	labelPrefix  = "MARATHON_APP_LABEL_"
	longestLabel = longestValue - len(labelPrefix)
)

var noVariable = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// environment is what Marathon tells a task before it is placed. The app's own
// variables go first, as they do there.
func environment(app *marathon.App, version string) map[string]string {
	env := map[string]string{
		"MARATHON_APP_ID":            app.ID,
		"MARATHON_APP_RESOURCE_CPUS": double(app.CPUs),
		"MARATHON_APP_RESOURCE_MEM":  double(app.MemMiB),
		"MARATHON_APP_RESOURCE_DISK": double(app.DiskMiB),
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
		env[name] = v.Value
	}
	return env
}

// double is a number as Scala writes it.
func double(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func labelVariables(env, labels map[string]string) {
	var names []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[label]; len(label) < longestLabel && len(value) < longestValue {
			name := strings.ToUpper(noVariable.ReplaceAllString(label, "_"))
			names = append(names, name)
			env[labelPrefix+name] = value
		}
	}
	env["MARATHON_APP_LABELS"] = strings.Join(names, " ")
}

// portVariables are those of ports that no host port leads to. The others are
// known where the task is placed.
func portVariables(env map[string]string, app *marathon.App) {
	var drawn []string
	for i, port := range inside(app) {
		text := strconv.Itoa(port)
		env["PORT"+strconv.Itoa(i)], env["PORT_"+text] = text, text
		if mappings(app)[i].ContainerPort == 0 {
			drawn = append(drawn, text)
		}
		env["PORTS"] = strings.Join(drawn, ",")
	}
	if len(drawn) > 0 {
		env["PORT"] = drawn[0]
	}
}
