// Package marathon holds Marathon's app and group definitions: what may stand
// in them, what is filled in, and what is wrong with one. One table says what
// becomes of each documented field (Fields): honoured, refused by name, or
// only information. The package never asks the cluster: it does not know
// which apps exist, which ports are free, or what an agent offers.
package marathon
