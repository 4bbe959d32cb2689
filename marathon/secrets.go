package marathon

import (
	"path"
	"regexp"
	"strings"

	"mesos-gpu/job"
)

// SecretVariables returns the variables of the app that are secrets, with the names of the
// secrets, for job.Spec.Secrets.
func (a *App) SecretVariables() map[string]string {
	var all map[string]string
	for variable, v := range a.Env {
		if v.Secret == "" {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[variable] = a.Secrets[v.Secret].jobName()
	}
	return all
}

// SecretFiles returns the volumes of the app that are secrets: their paths, with the names of
// the secrets, for job.Spec.SecretFiles.
func (a *App) SecretFiles() map[string]string {
	if a.Container == nil {
		return nil
	}
	var all map[string]string
	for _, v := range a.Container.Volumes {
		if v.Secret == "" {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[path.Clean(v.ContainerPath)] = a.Secrets[v.Secret].jobName()
	}
	return all
}

// PullSecret returns the name of the secret whose credentials pull the app's image, for
// job.Spec.PullSecret. It is "" without one.
func (a *App) PullSecret() string {
	if p := a.pullConfig(); p != nil {
		return a.Secrets[p.Secret].jobName()
	}
	return ""
}

func (a *App) pullConfig() *PullConfig {
	if a.Container == nil || a.Container.Docker == nil {
		return nil
	}
	return a.Container.Docker.PullConfig
}

// jobName returns the name of the secret below the app's role: sources often begin with a
// slash.
func (s Secret) jobName() string { return strings.TrimPrefix(s.Source, "/") }

// secretVariable matches the variables that may be secrets.
var secretVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (norm *appNormalizer) checkSecrets() {
	secrets := norm.app.Secrets
	for _, name := range sortedKeys(secrets) {
		if s := secrets[name]; s.Source != "" && !job.IsSecretName(s.jobName()) {
			norm.addError("/secrets/"+name+"/source", "%q is not a secret's name: words of letters, digits, dots, dashes and underscores with slashes between", s.Source)
		}
	}
	for _, variable := range sortedKeys(norm.app.Env) {
		name := norm.app.Env[variable].Secret
		if name == "" {
			continue
		}
		if _, ok := secrets[name]; !ok {
			norm.addError("/env/"+variable+"/secret", "secrets has no entry %q", name)
		}
		if !secretVariable.MatchString(variable) {
			norm.addError("/env/"+variable, "%q is not a variable's name of letters, digits and underscores, which a secret needs", variable)
		}
	}
	norm.checkPullConfig()
	files := norm.app.SecretFiles()
	norm.checkCount("/env", len(norm.app.SecretVariables()), job.MaxSecrets-len(files))
	if c := norm.app.Container; c != nil {
		for i, v := range c.Volumes {
			if _, ok := secrets[v.Secret]; v.Secret != "" && !ok {
				norm.addError(elementPath("/container/volumes", i)+"/secret", "secrets has no entry %q", v.Secret)
			}
		}
	}
}

// checkPullConfig rejects the credentials of MESOS containers: Mesos's own puller gets them
// from the master, which never has a secret.
func (norm *appNormalizer) checkPullConfig() {
	p := norm.app.pullConfig()
	if p == nil {
		return
	}
	const place = "/container/docker/pullConfig"
	if norm.app.Container.Type == MesosType {
		norm.addError(place, "not served: the master would have to send the credentials of a MESOS container: use DOCKER, or --docker_config of the agent")
	}
	if _, ok := norm.app.Secrets[p.Secret]; !ok {
		norm.addError(place+"/secret", "secrets has no entry %q", p.Secret)
	}
}
