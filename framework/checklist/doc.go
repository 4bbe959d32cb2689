// Package checklist contains only tests. They check that the framework behaves as
// Mesos's framework guides require, one test for each behaviour, numbered as in
// docs/internals/evidence.md. The whole scheduler runs against the embedded master and,
// with the build tag mesos, some tests run against Apache Mesos. In between,
// internal/testing/faultproxy records all calls and events and injects faults on the master's
// behalf. The tests check calls, task states and the REST API, but no internal state
// of the scheduler.
package checklist
