package gate

// CanSubmit is as access.AccessPolicy has it, in the file as it was read last.
func (g *Gate) CanSubmit(name, role string) bool {
	return g.current.Load().policy.CanSubmit(name, role)
}
