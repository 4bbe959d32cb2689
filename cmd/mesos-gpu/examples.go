package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// commandExamples returns the examples in the help of each command, the most common
// first. The key is the name of the command without its parents.
func commandExamples() map[string][]string {
	return map[string][]string{
		"submit": {"submit train.yaml", "submit --gpus 4 -e SEED=7 --set timeout=2h train.yaml",
			"submit --name train-b --var lr=0.1 train.yaml", "submit pipeline/", "submit --dry-run -o json train.yaml",
			"marathon translate app.json | mesos-gpu submit -"},
		"apply":               {"apply train.yaml", "apply --dry-run services/", "apply --set tasks=5 web.yaml"},
		"diff":                {"diff train.yaml"},
		"get":                 {"get train > train.yaml", "get train@2 -o json"},
		"rerun":               {"rerun train", "rerun train@2", "rerun --failed sweep"},
		"ps":                  {"ps", "ps --runs train", "ps --all --state failed,lost", "ps --name 'train-*' --sort -gpus", "ps -o json"},
		"describe":            {"describe train", "describe train -o wide", "describe train --watch"},
		"logs":                {"logs train", "logs -f -n 20 train", "logs --stderr train.3", "logs --previous train"},
		"shell":               {"shell train", "shell train.3"},
		"kill":                {"kill train eval", "kill --force train"},
		"edit":                {"edit train --priority 10 --gpu-type A100,H100", "edit train --set timeout=12h --set labels.team=vision"},
		"hold":                {"hold train --reason 'wrong data'", "hold --role lab --drain", "hold --user carol"},
		"release":             {"release train", "release --role lab"},
		"requeue":             {"requeue train", "requeue --hold train"},
		"holds":               {"holds", "holds -o json"},
		"notifications":       {"notifications", "notifications --failed"},
		"notifications retry": {"notifications retry 5b2f0c8e1d3a4b5c6d7e8f90"},
		"notifications drop":  {"notifications drop 5b2f0c8e1d3a4b5c6d7e8f90"},
		"stop":                {"stop web.0.1.x"},
		"scale":               {"scale web 4", "scale web 0"},
		"service-config": {"service-config haproxy --bind :80",
			"service-config haproxy --file /etc/haproxy/haproxy.cfg --watch --exec-reload 'systemctl reload haproxy'"},
		"schedules":          {"schedules", "schedules -o json"},
		"schema":             {"schema > job.schema.json"},
		"validate":           {"validate train.yaml", "validate *.yaml"},
		"explain":            {"explain", "explain gpu_type", "explain health_check.http.port"},
		"events":             {"events", "events -f train", "events -f -o json"},
		"wait":               {"wait train eval", "wait --for running --timeout 10m web"},
		"marathon":           {"marathon translate app.json"},
		"marathon translate": {"marathon translate app.json", "marathon translate - < app.json"},
		"agents":             {"agents", "agents -o wide"},
		"gpus":               {"gpus", "gpus --watch", "gpus --no-headers"},
		"queue":              {"queue", "queue -o wide"},
		"quota":              {"quota get", "quota set research 'V100=8, *=16'"},
		"quota get":          {"quota get", "quota get research -o wide"},
		"quota unset":        {"quota unset research"},
		"quota explain":      {"quota explain research", "quota explain research -o json"},
		"cordon":             {"cordon gpu7 --reason 'new fans'"},
		"uncordon":           {"uncordon gpu7"},
		"drain":              {"drain gpu7 gpu8 --reason 'new kernel'"},
		"top":                {"top", "top train", "top --by agent --sort -duty", "top --watch=false"},
		"usage": {"usage", "usage --by user,role,type --since 7d",
			"usage --by job --owner ada --since 2026-01-01", "usage --attempts --csv --since 90d > attempts.csv"},
		"token":         {"token alice"},
		"whoami":        {"whoami", "whoami -o json"},
		"discover":      {"discover", "discover -o json"},
		"simulate":      {"simulate", "simulate --policy headroom,binpack --plot gpus.svg"},
		"cluster":       {"cluster check", "cluster config --role master --ip 10.0.0.1 --masters 10.0.0.1,10.0.0.2,10.0.0.3"},
		"cluster check": {"cluster check", "cluster check --role agent -o json"},
		"cluster config": {"cluster config --role master --ip 10.0.0.1 --masters 10.0.0.1,10.0.0.2,10.0.0.3",
			"cluster config --role agent --ip 10.0.0.4 --masters 10.0.0.1 --out /"},
		"volume":         {"volume create", "volume list"},
		"volume create":  {"volume create"},
		"volume list":    {"volume list", "volume list -o json"},
		"volume inspect": {"volume inspect nvidia_550.54.15"},
		"volume verify":  {"volume verify", "volume verify nvidia_550.54.15"},
		"volume gc":      {"volume gc"},
		"volume cdi":     {"volume cdi"},
		"volume plugin":  {"volume plugin"},
		"scheduler":      {"scheduler --master http://master:5050", "scheduler --master zk://zk1:2181,zk2:2181/mesos"},
		"agent":          {"agent"},
		"agent flags":    {"agent flags"},
		"agent devices":  {"agent devices", "agent devices -o json"},
		"agent cordon":   {"agent cordon 3"},
		"agent uncordon": {"agent uncordon 3"},
		"agent mig":      {"agent mig", "agent mig GPU-8f1c 3g.20gb,2g.10gb"},
		"agent share":    {"agent share 3"},
		"agent unshare":  {"agent unshare 3"},
		"local":          {"local", "local --gpus 8xV100,4xA100 --free-ports"},
		"version":        {"version", "version -o json"},
	}
}

// addExamples adds the examples to the commands below root.
func addExamples(root *cobra.Command) {
	for verb, lines := range commandExamples() {
		c, _, err := root.Find(strings.Fields(verb))
		if err == nil && c.Example == "" && c != root {
			c.Example = "  mesos-gpu " + strings.Join(lines, "\n  mesos-gpu ")
		}
	}
}
