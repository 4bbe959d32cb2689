package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/workdir"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// resolveWorkdir makes the working folder of a job file relative to the current folder.
// In the file it is relative to the file's own folder.
func resolveWorkdir(spec *job.Spec, base string) {
	if spec.Workdir != "" && !job.IsWorkdirDigest(spec.Workdir) && !filepath.IsAbs(spec.Workdir) {
		spec.Workdir = filepath.Join(base, spec.Workdir)
	}
}

// resolveChdir replaces the folder of the submission by the path of the current folder. A shell has the path of a link in PWD, which
// the agents may know although the link leads elsewhere there.
func resolveChdir(spec *job.Spec) error {
	if spec.Chdir != job.ChdirSubmit {
		return nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	spec.Chdir = filepath.Clean(folder)
	return nil
}

// uploadFunc is client.Client.UploadWorkdir.
type uploadFunc func(ctx context.Context, archive client.WorkdirArchive, o client.UploadOptions) (api.StoredWorkdir, bool, error)

// SubmitWithWorkdir uploads the working folder of a job and submits the job. It uploads
// the folder again if another scheduler, which does not store it, receives the job.
func SubmitWithWorkdir[View any](
	ctx context.Context, a *cli.App, spec *job.Spec, upload uploadFunc,
	submit func(context.Context, job.Spec) (View, error),
) (View, error) {
	folder := spec.Workdir
	if folder == "" || job.IsWorkdirDigest(folder) {
		return submit(ctx, *spec)
	}
	for again := false; ; again = true {
		stored, err := uploadFolder(ctx, a, folder, upload)
		if err != nil {
			var none View
			return none, err
		}
		sent := *spec
		sent.Workdir = stored.Workdir
		view, err := submit(ctx, sent)
		if p := (*api.Problem)(nil); again || !errors.As(err, &p) || p.Code != api.CodeWorkdirNotFound {
			return view, err
		}
	}
}

// uploadFolder packs a folder without the files that its .mesosgpuignore or .gitignore exclude, and uploads it, with a
// progress bar on a terminal.
func uploadFolder(ctx context.Context, a *cli.App, folder string, upload uploadFunc) (api.StoredWorkdir, error) {
	packed, err := workdir.Pack(ctx, folder)
	if err != nil {
		return api.StoredWorkdir{}, err
	}
	defer packed.Close()
	var part func(int64)
	done := func() {}
	defer func() { done() }()
	archive := client.WorkdirArchive{Digest: packed.Digest, Bytes: packed.Bytes, Open: packed.Reader}
	stored, _, err := upload(ctx, archive, client.UploadOptions{OnProgress: func(sent, total int64) {
		if part == nil {
			if part, done = a.StartProgress("uploading "+folder, total); part == nil {
				part = func(int64) {}
			}
		}
		part(sent)
	}})
	return stored, err
}

// digestWorkdir returns the digest of a working folder, without uploading it.
func digestWorkdir(ctx context.Context, folder string) (string, error) {
	if folder == "" || job.IsWorkdirDigest(folder) {
		return folder, nil
	}
	packed, err := workdir.Pack(ctx, folder)
	if err != nil {
		return "", err
	}
	return packed.Digest, packed.Close()
}
