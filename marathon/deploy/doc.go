// Package deploy computes how to bring apps to their desired state. It holds the apps
// with their versions, the groups and the deployments. Its callers report which instances
// exist, and carry out the actions that it returns. It has no I/O and no clock. It never
// restarts an instance that has ended: the scheduler does that for each job. State that
// must survive a failover is returned as documents.
package deploy
