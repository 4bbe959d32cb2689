package apiserver

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// WorkdirStore stores the archives of working folders.
type WorkdirStore interface {
	// FindWorkdir returns the size of the stored archive of a working folder that the requester may use; else 404.
	FindWorkdir(ctx context.Context, by *access.Grant, digest string) (api.StoredWorkdir, error)
	// StoreWorkdir stores the archive of a working folder; created is false if the requester has
	// stored it before.
	StoreWorkdir(ctx context.Context, by *access.Grant, digest string, archive io.Reader) (w api.StoredWorkdir, created bool, err error)
	// OpenWorkdir opens the archive of a run for its agents, while tasks of the run
	// start. It returns a Problem for a wrong token.
	OpenWorkdir(ctx context.Context, run job.RunID, token string) (*os.File, error)
}

// WorkdirPattern is the route by which agents fetch the archive of a run. The token is
// part of the path, because Mesos's fetcher recognizes archives by the end of the URL.
const WorkdirPattern = "/v1/jobs/{name}/runs/{run}/workdir/{token}/" + job.WorkdirArchive

// WorkdirURL returns the URL by which agents fetch the archive of a run from the API at
// base.
func WorkdirURL(base string, run job.RunID, token string) string {
	path := strings.NewReplacer("{name}", url.PathEscape(run.Name), "{run}", strconv.Itoa(run.Run), "{token}", token).Replace(WorkdirPattern)
	return strings.TrimRight(base, "/") + path
}

const (
	// workdirProgressTimeout limits how long a client may take to send or receive a part
	// of an archive, uploadTimeout how long to send all of it.
	workdirProgressTimeout, uploadTimeout = 30 * time.Second, time.Hour
	// archivePart is how much of an archive is sent before the deadline is extended, in bytes.
	archivePart = 1 << 20
)

func (s *apiServer) handleFindWorkdir(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	stored, err := leader.Workdirs.FindWorkdir(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue("digest"))
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, stored)
	return nil
}

func (s *apiServer) handleStoreWorkdir(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	connection := http.NewResponseController(w)
	body := &progressReader{r.Body, connection, time.Now().Add(uploadTimeout)}
	stored, created, err := leader.Workdirs.StoreWorkdir(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue("digest"), body)
	_ = connection.SetWriteDeadline(time.Now().Add(workdirProgressTimeout)) // the upload may have taken longer than the server permits
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/workdirs/"+stored.Workdir)
	}
	apihttp.WriteJSON(w, status, stored)
	return nil
}

// progressReader extends the connection's read deadline before each read. The size of
// the body is bounded by its reader.
type progressReader struct {
	io.Reader
	connection *http.ResponseController
	// end is when the whole body must have arrived.
	end time.Time
}

func (p *progressReader) Read(b []byte) (int, error) {
	until := time.Now().Add(workdirProgressTimeout)
	if until.After(p.end) {
		until = p.end
	}
	_ = p.connection.SetReadDeadline(until) // test recorders do not support it
	return p.Reader.Read(b)
}

// handleFetchWorkdir sends the archive of a run to an agent.
func (s *apiServer) handleFetchWorkdir(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	run, ok := job.ParseRunID(r.PathValue("name") + "@" + r.PathValue("run"))
	if !ok {
		return request.UnknownArchive()
	}
	archive, err := leader.Workdirs.OpenWorkdir(r.Context(), run, r.PathValue("token"))
	if err != nil {
		return err
	}
	defer archive.Close()
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.Header().Set("Cache-Control", "private")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := sendArchive(w, archive); err != nil {
		panic(http.ErrAbortHandler) // the agent must not take a part for all of it
	}
	return nil
}

// sendArchive copies an archive and extends the write deadline for each part.
func sendArchive(w http.ResponseWriter, archive *os.File) error {
	connection := http.NewResponseController(w)
	for {
		_ = connection.SetWriteDeadline(time.Now().Add(workdirProgressTimeout)) // test recorders do not support it
		n, err := io.CopyN(w, archive, archivePart)
		if err == io.EOF || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
