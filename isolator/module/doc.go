// Package module holds the Mesos isolator that is loaded into an unmodified
// agent, in C++ below src, and the tests that drive it. The isolator decides
// nothing: it passes Mesos's calls on to the daemon of "mesos-gpu agent" by
// the API of docs/reference/agent-api.md, and keeps containers running while the
// daemon is away. In Go there are the tests, and ReadInfo, which reads the versions of a
// built module.
package module
