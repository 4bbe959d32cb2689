// Package sim judges placement policies on recorded clusters and tasks before
// they meet users. It has the scheduler's own package fit decide; around it
// are traces, the order in which tasks arrive, and what is counted. Reading is
// from io.Readers, chance from seeds, and only Sweep starts goroutines and
// looks at the clock.
package sim
