// Package crash contains only tests. They kill scheduler processes before and after
// journal writes, while jobs are submitted to the embedded cluster. They then compare
// the result with independent evidence: the tasks, each of which writes one line and
// locks its devices, and the master's state. The test binary acts as the scheduler, the
// executor and the container's first process. Nothing requires root, because device
// isolation is tested elsewhere.
package crash
