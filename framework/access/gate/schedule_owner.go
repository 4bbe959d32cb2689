package gate

// CanSubmit calls AccessPolicy.CanSubmit on the latest version of the access file.
func (g *Gate) CanSubmit(name, role string) bool {
	return g.current.Load().policy.CanSubmit(name, role)
}
