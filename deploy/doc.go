// Package deploy holds what puts mesos-gpu on machines: units, example
// configurations, the packages' recipe and scripts, dashboards and alert
// rules. It has no code but the tests that hold all of it to the program.
package deploy
