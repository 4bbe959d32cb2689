// Package checklist has no code of its own. Its tests hold the framework to
// what Mesos's guides ask of one, a test for each behaviour, numbered as in
// docs/mesos-behaviours.md: the whole scheduler runs against the embedded
// master and, under the build tag mesos, those that can against Apache Mesos.
// Between the two stands internal/faultproxy, which sees every call and
// event and misbehaves in the master's name. The tests look at calls, at task
// states and at the REST API, never inside the scheduler.
package checklist
