package containers

// OnFiles has each change of a container's file asked first.
func (c *Containers) OnFiles(ask func(file string) error) { c.files.hook = ask }
