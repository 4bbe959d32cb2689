package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// jobFileFlags select job files and change what is read from them.
type jobFileFlags struct {
	files []string
	// The other fields are flags, in the syntax of the command line.
	name, image               string
	workdir, chdir            string
	gpus                      int
	gpuTypes                  []string
	env, overrides, variables []string
	envFiles                  envFiles
	command                   *cobra.Command
}

// jobFromFile is a job and the file that has it.
type jobFromFile struct {
	*job.Spec
	file string
}

// standardInput is the name of the file - in messages.
const standardInput = "standard input"

// jobFileExtensions selects the files of a folder.
var jobFileExtensions = []string{".yaml", ".yml", ".json"}

// addJobFileFlags adds the flags to a command whose arguments are job files.
func addJobFileFlags(c *cobra.Command) *jobFileFlags {
	s := &jobFileFlags{command: c}
	f := c.Flags()
	f.StringArrayVarP(&s.files, "file", "f", nil, "job file or folder, as an alternative to the argument")
	f.StringVar(&s.name, "name", "", "the job's name, instead of that in the file")
	f.StringArrayVarP(&s.env, "env", "e", nil, "NAME=value, or NAME for its value here: set an environment variable; the file's others stay")
	s.envFiles.addFlag(f)
	f.IntVar(&s.gpus, "gpus", 0, "GPUs for each task, instead of those in the file")
	f.StringSliceVar(&s.gpuTypes, "gpu-type", nil, "acceptable GPU types, instead of those in the file")
	f.StringVar(&s.image, "image", "", "container image, instead of that in the file")
	f.StringVarP(&s.workdir, "workdir", "w", "", "folder to upload, relative to the current one, instead of that in the file; the tasks start in a copy of it")
	f.StringVar(&s.chdir, "chdir", "", "submit, or a folder that the agents share, in which the tasks start, instead of that in the file")
	f.StringArrayVar(&s.overrides, "set", nil, "KEY=VALUE or KEY.SUBKEY=VALUE: set a key of the job file to a value in YAML; without VALUE the key is removed")
	f.StringArrayVar(&s.variables, "var", nil, "NAME=value: the value of the variable {{NAME}} in the file")
	return s
}

// parseChanges returns the changes that the flags describe.
func (s *jobFileFlags) parseChanges() (c *jobfile.Changes, err error) {
	c = &jobfile.Changes{Variables: map[string]string{}}
	for _, text := range s.variables {
		name, value, err := jobfile.ParseVariable(text)
		if err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("--var %w", err)}
		}
		c.Variables[name] = value
	}
	for _, text := range s.overrides {
		o, err := jobfile.ParseOverride(text)
		if err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("--set %w", err)}
		}
		c.Overrides = append(c.Overrides, o)
	}
	given := s.command.Flags().Changed
	if given("name") {
		c.Overrides = append(c.Overrides, jobfile.OverrideText("name", s.name))
	}
	if given("gpus") {
		c.Overrides = append(c.Overrides, jobfile.OverrideText("gpus", strconv.Itoa(s.gpus)))
	}
	if given("gpu-type") {
		c.Overrides = append(c.Overrides, jobfile.OverrideWords("gpu_type", s.gpuTypes))
	}
	if given("image") {
		c.Overrides = append(c.Overrides, jobfile.OverrideText("image", s.image))
	}
	if given("workdir") {
		folder := s.workdir
		if !job.IsWorkdirDigest(folder) {
			if folder, err = filepath.Abs(folder); err != nil {
				return nil, fmt.Errorf("--workdir: %w", err)
			}
		}
		c.Overrides = append(c.Overrides, jobfile.OverrideText("workdir", folder))
	}
	if given("chdir") {
		c.Overrides = append(c.Overrides, jobfile.OverrideText("chdir", s.chdir))
	}
	for _, text := range s.env {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, &cli.UsageError{Err: fmt.Errorf("--env: %q: write NAME=value", text)}
		}
		c.Overrides = append(c.Overrides, jobfile.OverrideText("env."+name, value))
	}
	return c, nil
}

// readJobs reads all jobs of the files, in the order in which they can be submitted: each after those that it depends on.
func (s *jobFileFlags) readJobs(a *cli.App, args []string) ([]jobFromFile, error) {
	jobs, err := s.readFiles(a, args)
	if err != nil {
		return nil, err
	}
	return sortByDependencies(jobs), nil
}

// readFiles returns the jobs of the files without mistakes, and the mistakes of all others.
func (s *jobFileFlags) readFiles(a *cli.App, args []string) (jobs []jobFromFile, err error) {
	args = slices.Concat(args, s.files)
	if len(args) == 0 || slices.Contains(args, "") {
		return nil, &cli.UsageError{Err: fmt.Errorf("%s needs FILE: see %s --help", cli.CommandName(s.command), s.command.CommandPath())}
	}
	if s.env, err = s.envFiles.assignments(s.env, a.Getenv); err != nil {
		return nil, err
	}
	changes, err := s.parseChanges()
	if err != nil {
		return nil, err
	}
	if changes.Defaults, err = a.JobDefaults(); err != nil {
		return nil, err
	}
	var errs []error
	for _, arg := range args {
		files, err := listJobFiles(arg)
		errs = append(errs, err)
		for _, file := range files {
			specs, err := readJobFile(a, file, changes)
			errs = append(errs, err)
			for _, spec := range specs {
				jobs = append(jobs, jobFromFile{spec, file})
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return jobs, err
	}
	if unused := changes.UnusedVariables(); len(unused) > 0 {
		return jobs, &cli.UsageError{Err: fmt.Errorf("--var %s: no file has {{%s}}", unused[0], unused[0])}
	}
	return jobs, checkDistinctNames(jobs, s.name)
}

// listJobFiles returns the job files of a folder by name, not recursively, or the path itself if it is no folder.
func listJobFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if path == "-" || err != nil || !info.IsDir() {
		return []string{path}, nil // readJobFile reports the error
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read folder: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") || !slices.Contains(jobFileExtensions, filepath.Ext(e.Name()))
	})
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: the folder has no job file: %s", path, cli.JoinWithOr(jobFileExtensions))
	}
	var files []string
	for _, e := range entries {
		files = append(files, filepath.Join(path, e.Name()))
	}
	return files, nil
}

// ReadJobFile reads a file with one job; - is standard input.
func ReadJobFile(a *cli.App, name string) (*job.Spec, error) {
	specs, err := readJobFile(a, name, &jobfile.Changes{})
	switch {
	case err != nil:
		return nil, err
	case len(specs) > 1:
		return nil, fmt.Errorf("%s has %d jobs: one is expected", name, len(specs))
	}
	return specs[0], nil
}

func readJobFile(a *cli.App, name string, c *jobfile.Changes) ([]*job.Spec, error) {
	specs, err := parseJobFile(a, name, c)
	for _, spec := range specs {
		err = errors.Join(err, resolveChdir(spec))
	}
	return specs, err
}

// parseJobFile returns the jobs of a file with their working folders relative to the current folder.
func parseJobFile(a *cli.App, name string, c *jobfile.Changes) ([]*job.Spec, error) {
	if name == "-" {
		return jobfile.ReadAll(a.Stdin, standardInput, c)
	}
	f, err := os.Open(name)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the others are the operation and the name
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	specs, err := jobfile.ReadAll(f, name, c)
	for _, spec := range specs {
		resolveWorkdir(spec, filepath.Dir(name))
	}
	return specs, err
}

// checkDistinctNames returns an error if two jobs have the same name, which may come from --name.
func checkDistinctNames(jobs []jobFromFile, name string) error {
	seen := map[string]string{}
	for _, j := range jobs {
		first, ok := seen[j.Name]
		switch {
		case ok && name != "":
			return &cli.UsageError{Err: fmt.Errorf("--name %s: the files have %d jobs, and each needs its own name", name, len(jobs))}
		case ok:
			return fmt.Errorf("job %s is in %s and in %s: each needs its own name", j.Name, first, j.file)
		}
		seen[j.Name] = j.file
	}
	return nil
}

// sortByDependencies moves each job behind those that it depends on, and otherwise keeps the order. Jobs that depend on
// each other stay as they are: the scheduler rejects them.
func sortByDependencies(jobs []jobFromFile) []jobFromFile {
	byName := map[string]jobFromFile{}
	for _, j := range jobs {
		byName[j.Name] = j
	}
	var sorted []jobFromFile
	visited := map[string]bool{}
	var visit func(j jobFromFile)
	visit = func(j jobFromFile) {
		if visited[j.Name] {
			return
		}
		visited[j.Name] = true
		for _, d := range j.After {
			if before, ok := byName[d.Job]; ok {
				visit(before)
			}
		}
		sorted = append(sorted, j)
	}
	for _, j := range jobs {
		visit(j)
	}
	return sorted
}
