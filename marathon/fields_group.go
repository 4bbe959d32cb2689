package marathon

// GroupFields returns the fields of a group. Its apps have AppFields, its groups have
// these fields.
func GroupFields() []Field {
	return []Field{
		{Path: "id", Type: String, MinLen: 1, Why: "relative to the group above; a top group without an id is the root"},
		{Path: "apps", Type: Array},
		{Path: "apps[]", Type: Object},
		{Path: "groups", Type: Array},
		{Path: "groups[]", Type: Object},
		{Path: "dependencies", Type: Array, Why: "on groups, and unlike in Marathon also on apps"},
		{Path: "dependencies[]", Type: String},
		{Path: "enforceRole", Type: Boolean, Why: "top groups only: the group's name is its apps' role"},
		{Path: "scaleBy", Type: Number, Min: boundOf(0), Why: "multiplies the instances of the group's apps; not with other fields"},
		{Path: "version", Type: String, Why: "restores the group as it was at that version; not with other fields"},
		{Path: "pods", Type: Array, Support: Refused, Why: "one executor runs one task"},
		{Path: "pods[]", Type: Any, Support: Refused},
	}
}
