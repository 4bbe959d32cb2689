// Package marathon parses Marathon's app and group definitions: it checks them, fills in defaults and converts old
// forms. A table (AppFields) defines whether each documented field is honoured, refused, or only informational. The
// package does not access the cluster: which apps exist, which ports are free and what agents offer has no influence
// on it.
package marathon
