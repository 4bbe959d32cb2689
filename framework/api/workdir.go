package api

// StoredWorkdir is an archive of a working folder that the scheduler stores.
type StoredWorkdir struct {
	// Workdir is the value of workdir in the job that uses it.
	Workdir string `json:"workdir"`
	// Bytes is the size of the archive.
	Bytes int64 `json:"bytes"`
}
