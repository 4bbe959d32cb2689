// Package election chooses the scheduler that leads among several, by
// ephemeral sequential znodes: the oldest candidate leads. It says who leads;
// that nobody else acts is for the journal's epoch to ensure.
package election

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
)

// ErrNoLeader means that there is no candidate at all.
var ErrNoLeader = errors.New("no scheduler leads")

// prefix begins the candidates' names, of which the last digits count up.
const (
	namePrefix     = "candidate-"
	sequenceDigits = 10
)

// CandidateInfo is a scheduler as it presents itself to the others.
type CandidateInfo struct {
	// URL is where its API is reached.
	URL string `json:"url"`
}

// Candidate stands for election as long as its session lasts.
type Candidate struct {
	session *zkconn.Session
	folder  string
	name    string
}

// JoinElection makes a candidate in the folder. It leaves with its session.
func JoinElection(ctx context.Context, s *zkconn.Session, folder string, m CandidateInfo) (*Candidate, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("stand for election: %w", err)
	}
	if err := s.MakeFolder(ctx, folder); err != nil {
		return nil, err
	}
	var made string
	err = s.Retry(ctx, func() (err error) {
		// Its name has a part of chance by which it is found again if the
		// answer is lost.
		made, err = s.Conn.CreateProtectedEphemeralSequential(folder+"/"+namePrefix, data, s.ACL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stand for election in %s: %w", folder, err)
	}
	return &Candidate{session: s, folder: folder, name: path.Base(made)}, nil
}

// ZnodePath is the candidate's znode.
func (c *Candidate) ZnodePath() string { return c.folder + "/" + c.name }

// AwaitLeadership returns nil when the candidate leads. Returns zkconn.ErrLost, wrapped,
// if its session ends before.
func (c *Candidate) AwaitLeadership(ctx context.Context) error {
	for {
		names, err := listCandidates(ctx, c.session, c.folder)
		if err != nil {
			return err
		}
		switch i := slices.Index(names, c.name); i {
		case -1:
			return fmt.Errorf("await the lead in %s: %w: candidate %s is gone", c.folder, zkconn.ErrLost, c.name)
		case 0:
			return nil
		default:
			// The one before alone, so that the end of one wakes one.
			if err := c.awaitRemoval(ctx, names[i-1]); err != nil {
				return err
			}
		}
	}
}

// awaitRemoval waits until the candidate of that name is not there.
func (c *Candidate) awaitRemoval(ctx context.Context, name string) error {
	var there bool
	var events <-chan zk.Event
	err := c.session.Retry(ctx, func() error {
		var stat *zk.Stat
		var err error
		there, stat, events, err = c.session.Conn.ExistsW(c.folder + "/" + name)
		if err == nil && there && stat.EphemeralOwner == c.session.Conn.SessionID() {
			// Ours too, made by a request whose answer was lost.
			err = c.session.Conn.Delete(c.folder+"/"+name, -1)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("watch candidate %s: %w", name, err)
	}
	if !there {
		return nil
	}
	select {
	case <-events:
		return nil
	case <-c.session.Lost():
		return fmt.Errorf("await the lead in %s: %w", c.folder, zkconn.ErrLost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listCandidates are the names, the one that leads first.
func listCandidates(ctx context.Context, s *zkconn.Session, folder string) (names []string, err error) {
	err = s.Retry(ctx, func() (err error) {
		names, _, err = s.Conn.Children(folder)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, fmt.Errorf("list candidates in %s: %w", folder, err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return len(n) < sequenceDigits || !strings.Contains(n, namePrefix) })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(a[len(a)-sequenceDigits:], b[len(b)-sequenceDigits:])
	})
	return names, nil
}

// FindLeader returns who leads, or is about to. Returns ErrNoLeader if nobody
// stands for election.
func FindLeader(ctx context.Context, s *zkconn.Session, folder string) (CandidateInfo, error) {
	for {
		names, err := listCandidates(ctx, s, folder)
		if err != nil {
			return CandidateInfo{}, err
		}
		if len(names) == 0 {
			return CandidateInfo{}, ErrNoLeader
		}
		var data []byte
		err = s.Retry(ctx, func() (err error) {
			data, _, err = s.Conn.Get(folder + "/" + names[0])
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue // it has left since
		}
		if err != nil {
			return CandidateInfo{}, fmt.Errorf("read candidate %s: %w", names[0], err)
		}
		var m CandidateInfo
		if err := json.Unmarshal(data, &m); err != nil {
			return m, fmt.Errorf("parse candidate %s: %w", names[0], err)
		}
		return m, nil
	}
}
