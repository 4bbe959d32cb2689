package marathon

// GroupFields returns the fields of a group. Its apps have AppFields, its groups have
// these fields.
func GroupFields() []Field {
	return []Field{
		{Path: "id", Type: String, MinLen: 1, Why: "relative to the group above; the topmost may go without and is the root then"},
		{Path: "apps", Type: Array},
		{Path: "apps[]", Type: Object},
		{Path: "groups", Type: Array},
		{Path: "groups[]", Type: Object},
		{Path: "dependencies", Type: Array, Why: "on groups, and here also on apps"},
		{Path: "dependencies[]", Type: String},
		{Path: "enforceRole", Type: Boolean, Why: "top groups only: the group's name is its apps' role"},
		{Path: "scaleBy", Type: Number, Min: boundOf(0), Why: "alone: multiplies the instances of the group's apps"},
		{Path: "version", Type: String, Why: "alone: back to the group as it was then"},
		{Path: "pods", Type: Array, Support: Refused, Why: "one executor runs one task"},
		{Path: "pods[]", Type: Any, Support: Refused},
	}
}
