package containers

// SetFileHook has each change of a container's file asked first.
func (c *Manager) SetFileHook(ask func(file string) error) { c.records.beforeChange = ask }
