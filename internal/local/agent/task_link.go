package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"mesos-gpu/internal/local/agent/container"
)

// linksFolder is the folder of the work directory with a link to the folder of each task that is a process: its short path.
const linksFolder = "tasks"

// linkNamePattern matches the ids of executors that are names of links. Those of jobs are.
var linkNamePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// shortenPath starts the command of a nested container at the short path of its folder, which exists.
func (a *EmbeddedAgent) shortenPath(s *container.LaunchSpec, l nestedLaunch) error {
	folder := s.Command.Dir
	link, err := linkTask(filepath.Join(a.cfg.WorkDir, linksFolder), l.executor, l.ids[0], folder)
	if err != nil {
		return err
	}
	env := []string{"PWD=" + link} // in which shells and programs find the path of a link
	for _, entry := range s.Command.Env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PWD":
			continue
		case value == folder: // files cannot be moved from one mount to another
			entry = name + "=" + link
		}
		env = append(env, entry)
	}
	s.Command.Dir, s.Command.Env = link, env
	s.Alias = &container.FolderAlias{Root: l.sandbox, Folder: nestedFolder(l.ids), Path: link}
	return nil
}

// linkTask makes a link to a task's folder, named after its executor, and returns its path. An executor whose id is no plain name has
// that of its container. Other users can neither list nor change the folder with the links.
func linkTask(links, executor, containerID, folder string) (string, error) {
	if err := os.Mkdir(links, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("link the task's folder: %w", err)
	}
	name := executor
	if !linkNamePattern.MatchString(name) {
		name = containerID
	}
	link := filepath.Join(links, name)
	for n := 2; ; n++ { // the executor runs several tasks, or one with its id ran before
		err := os.Symlink(folder, link)
		if err == nil {
			return link, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("link the task's folder: %w", err)
		}
		link = filepath.Join(links, name+"-"+strconv.Itoa(n))
	}
}

// removeLinks removes the links whose folders do not exist any more.
func removeLinks(work string) error {
	links := filepath.Join(work, linksFolder)
	entries, err := os.ReadDir(links)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		link := filepath.Join(links, entry.Name())
		if _, gone := os.Stat(link); errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(link))
		}
	}
	if err != nil {
		return fmt.Errorf("remove links to sandboxes: %w", err)
	}
	return nil
}
