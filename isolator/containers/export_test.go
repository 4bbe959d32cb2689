package containers

// SetFileHook sets a function that is called before each change of a record and can
// reject it.
func (c *Manager) SetFileHook(ask func(file string) error) { c.records.beforeChange = ask }
