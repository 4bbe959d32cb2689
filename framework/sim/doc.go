// Package sim compares placement policies on recorded clusters and tasks. It runs the scheduler's package fit on traces,
// draws the order in which tasks arrive, and measures the result. It reads from io.Readers and draws from seeds; only
// PolicySweep starts goroutines and reads the clock.
package sim
