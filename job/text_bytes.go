package job

// specOverhead is about what a Spec without texts needs in memory and in the journal, in bytes.
const specOverhead = 512

// TextBytes returns about how many bytes the job's texts need in memory and in the journal, without its tasks. Dependencies
// that are met and tasks that are added do not change it.
func (s *Spec) TextBytes() int {
	n := specOverhead + len(s.Name) + len(s.Role) + len(s.Owner) + len(s.Group) + len(s.Image) + len(s.Entrypoint) +
		len(s.User) + len(s.Network) + len(s.Workdir) + len(s.Chdir) + len(s.CheckpointDir) + len(s.Request.MinDriver) + len(s.Request.MinCUDA)
	add := func(texts ...string) {
		for _, text := range texts {
			n += len(text) + 16
		}
	}
	add(s.Command...)
	add(s.Artifacts...)
	add(s.PullSecret)
	add(s.Devices...)
	add(s.Request.Types.Include...)
	add(s.Request.Types.Exclude...)
	add(s.Request.Devices.Include...)
	add(s.Request.Devices.Exclude...)
	n += sizeOfTexts(s.Env) + sizeOfTexts(s.Secrets) + sizeOfTexts(s.SecretFiles) + sizeOfTexts(s.Labels) + sizeOfTexts(s.NetworkLabels)
	if s.Warn != nil {
		add(s.Warn.Signal, s.Warn.File, s.Warn.HTTP)
	}
	if s.ClientKey != nil {
		add(s.ClientKey.Key, s.ClientKey.Digest)
	}
	if s.Schedule != nil {
		add(s.Schedule.Cron, s.Schedule.TimeZone)
	}
	if s.Service != nil {
		add(s.Service.Autoscaling.Target.Metric, s.Service.Autoscaling.Target.Path)
	}
	for i := range s.Notify {
		add(s.Notify[i].To)
		for _, e := range s.Notify[i].On {
			add(string(e))
		}
	}
	for i := range s.Constraints {
		add(s.Constraints[i].Field, s.Constraints[i].Value)
	}
	for i := range s.After {
		add(s.After[i].Job)
		add(s.After[i].Run)
	}
	for i := range s.Volumes {
		add(s.Volumes[i].Source, s.Volumes[i].Target, s.Volumes[i].Driver)
	}
	for i := range s.Fetch {
		add(s.Fetch[i].URI, s.Fetch[i].Path)
	}
	for i := range s.Ports {
		add(s.Ports[i].Name)
	}
	for i := range s.Ulimits {
		add(s.Ulimits[i].Name)
	}
	for i := range s.Parameters {
		add(s.Parameters[i].Key, s.Parameters[i].Value)
	}
	if s.HealthCheck != nil || s.Check != nil || len(s.MoreHealthChecks) > 0 { // most jobs have none
		for _, c := range s.allChecks() {
			add(c.Command...)
			if c.HTTP != nil {
				add(c.HTTP.Path)
			}
		}
	}
	if s.Matrix != nil {
		n += s.Matrix.textBytes()
	}
	return n
}

// sizeOfTexts returns the length of all names and values, with a little more for each.
func sizeOfTexts(texts map[string]string) int {
	if len(texts) == 0 {
		return 0
	}
	n := 32 * len(texts)
	for name, value := range texts {
		n += len(name) + len(value)
	}
	return n
}
