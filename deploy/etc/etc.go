// Package etc contains the commented configuration files of the packages.
package etc

import _ "embed"

// Scheduler and Agent are the files scheduler.conf and agent.conf, with all options and
// their default values.
var (
	//go:embed scheduler.conf
	Scheduler string
	//go:embed agent.conf
	Agent string
)
