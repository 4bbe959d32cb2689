// Package marathon parses Marathon's app and group definitions: it checks them, fills in
// defaults and converts old forms. A table (AppFields) says for each documented field
// whether it is honoured, refused, or only informational. The package never asks the
// cluster: it does not know which apps exist, which ports are free, or what agents offer.
package marathon
