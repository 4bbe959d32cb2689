// Package election elects the leader among several schedulers, with ephemeral
// sequential znodes: the oldest candidate leads. It only identifies the leader; the
// journal's epoch ensures that no other scheduler acts.
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

// ErrNoLeader means that there are no candidates.
var ErrNoLeader = errors.New("no scheduler leads")

// Candidates' names start with namePrefix and end with sequenceDigits digits, which ZooKeeper counts up.
const (
	namePrefix     = "candidate-"
	sequenceDigits = 10
)

// CandidateInfo contains the facts that a candidate publishes to other schedulers.
type CandidateInfo struct {
	// URL is the URL of its API.
	URL string `json:"url"`
}

// Candidate takes part in the election until its session ends.
type Candidate struct {
	// session is the ZooKeeper session. Its end removes the candidate's znode.
	session *zkconn.Session
	// folder is the znode of the election, name the candidate's znode in it. The candidate with the lowest number
	// leads.
	folder string
	name   string
}

// JoinElection creates a candidate in the folder. ZooKeeper removes it when the session ends.
func JoinElection(ctx context.Context, s *zkconn.Session, folder string, m CandidateInfo) (*Candidate, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("join the election: %w", err)
	}
	if err := s.MakeFolder(ctx, folder); err != nil {
		return nil, err
	}
	var made string
	err = s.Retry(ctx, func() (err error) {
		// The name contains a random part by which the library finds the znode
		// if the answer is lost.
		made, err = s.Conn.CreateProtectedEphemeralSequential(folder+"/"+namePrefix, data, s.ACL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("join the election in %s: %w", folder, err)
	}
	return &Candidate{session: s, folder: folder, name: path.Base(made)}, nil
}

// ZnodePath returns the path of the candidate's znode.
func (c *Candidate) ZnodePath() string { return c.folder + "/" + c.name }

// AwaitLeadership returns nil when the candidate leads. It returns zkconn.ErrLost,
// wrapped, if the session ends before that.
func (c *Candidate) AwaitLeadership(ctx context.Context) error {
	for {
		names, err := listCandidates(ctx, c.session, c.folder)
		if err != nil {
			return err
		}
		switch i := slices.Index(names, c.name); i {
		case -1:
			return fmt.Errorf("wait for leadership in %s: %w: candidate %s is gone", c.folder, zkconn.ErrLost, c.name)
		case 0:
			return nil
		default:
			// Watch the preceding candidate only, so that a removal wakes one candidate.
			if err := c.awaitRemoval(ctx, names[i-1]); err != nil {
				return err
			}
		}
	}
}

// awaitRemoval waits until the candidate of that name does not exist.
func (c *Candidate) awaitRemoval(ctx context.Context, name string) error {
	var there bool
	var events <-chan zk.Event
	err := c.session.Retry(ctx, func() error {
		var stat *zk.Stat
		var err error
		there, stat, events, err = c.session.Conn.ExistsW(c.folder + "/" + name)
		if err == nil && there && stat.EphemeralOwner == c.session.Conn.SessionID() {
			// Also this session's, created by a request whose answer was lost.
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
		return fmt.Errorf("wait for leadership in %s: %w", c.folder, zkconn.ErrLost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listCandidates returns the names of the candidates, the leader's first.
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

// FindLeader returns the scheduler that leads or is about to lead. It returns
// ErrNoLeader if there are no candidates.
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
			continue // the candidate has left meanwhile
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
