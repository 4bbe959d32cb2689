// Package hardware describes the GPUs of agents apart from their use. Agents with equal GPUs, driver and CUDA version
// share a Class. A Requirement lists a demand's conditions on devices and their host; it is matched once with each Class.
// Catalog finds both and chooses the devices of a task. The package knows neither agents nor what they have free.
package hardware
