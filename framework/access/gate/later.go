package gate

// MaySubmit is as access.Policy has it, in the file as it was read last.
func (g *Gate) MaySubmit(name, role string) bool { return g.now.Load().policy.MaySubmit(name, role) }
