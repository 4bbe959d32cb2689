// Package deploy brings the services that people want to what they want of
// them: it holds the apps with their versions, the groups and the deployments
// under way, is told which instances there are, and says what to do next. It
// never does anything itself, and never starts an instance again that has
// ended: the scheduler does that for each job. What it has to remember beyond
// a failover it hands out as documents.
package deploy
