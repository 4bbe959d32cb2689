package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"time"

	accounts "github.com/moby/sys/user"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
)

// folderTimeout bounds the time in which a file system must answer whether a user can enter a folder.
const folderTimeout = 10 * time.Second

// applyOwnerAccount sets the account of a task that runs as its owner. If the user has no home on this machine, or cannot enter it,
// the account has none, and the warning states why.
func (c *ExecutorConfig) applyOwnerAccount(ctx context.Context, t *task.TaskSpec) (warning string) {
	if !t.RunsAsOwner {
		return ""
	}
	owner, err := findOwner(t)
	if err == nil && !canAct(owner) {
		return ""
	}
	if err == nil {
		t.Account, err = checkHome(ctx, owner)
	}
	if err == nil {
		return ""
	}
	warning = fmt.Sprintf("HOME is the sandbox: %v", err)
	if t.Image != "" { // it has another HOME without a home as well
		c.Log.WithField("task", t.ID).WithError(err).Info("the container has no home of the user")
		return ""
	}
	c.Log.WithField("task", t.ID).Warn(warning)
	return warning
}

// checkChdir returns an error if the task cannot start in the folder of its submission. The shell that enters the folder in the task
// reports the same, but only in the task's output.
func (c *ExecutorConfig) checkChdir(ctx context.Context, t *task.TaskSpec) error {
	if t.Chdir == "" {
		return nil
	}
	if !t.RunsAsOwner {
		return errors.New("chdir: the task does not run as the owner of its job")
	}
	owner, err := findOwner(t)
	if err == nil && canAct(owner) {
		err = checkEntry(ctx, owner, t.Chdir)
	}
	if err == nil {
		return nil
	}
	host, _ := os.Hostname()
	return fmt.Errorf("chdir: user %s on %s: %w: submit from a folder that this user can enter on all agents, or leave out chdir", t.User, host, err)
}

// canAct reports whether this process can take a user's rights. An agent without root rights runs all tasks as its own user.
func canAct(who *user.User) bool {
	id := os.Geteuid()
	return id == 0 || who.Uid == strconv.Itoa(id)
}

// findOwner returns the account as which a task runs that runs as its owner.
func findOwner(t *task.TaskSpec) (*user.User, error) {
	if t.HostUser != nil {
		return user.LookupId(strconv.Itoa(t.HostUser.UID))
	}
	return user.Lookup(t.User)
}

// checkHome returns the account of a user, without a home if it returns an error.
func checkHome(ctx context.Context, owner *user.User) (*task.Account, error) {
	a := &task.Account{Name: owner.Username}
	if entry, err := accounts.LookupUser(owner.Username); err == nil { // users of a directory service are not in /etc/passwd
		a.Shell = entry.Shell
	}
	if owner.HomeDir == "" {
		return a, fmt.Errorf("user %s has no home on this machine", owner.Username)
	}
	if err := checkEntry(ctx, owner, owner.HomeDir); err != nil {
		return a, fmt.Errorf("home of user %s: %w", owner.Username, err)
	}
	a.Home = owner.HomeDir
	return a, nil
}

// checkEntry returns an error unless a user can enter a folder. The kernel decides with the user's rights: a server of shared
// folders may deny root what it allows the user.
func checkEntry(ctx context.Context, who *user.User, dir string) error {
	uid, gid, groups, err := credentialsOf(who)
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the credentials with it
		result <- openFolderAs(uid, gid, groups, dir)
	}()
	late := time.NewTimer(folderTimeout)
	defer late.Stop()
	select {
	case err = <-result:
		return err
	case <-late.C:
		return fmt.Errorf("%s does not answer within %s", dir, folderTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// openFolderAs opens what is in a folder with the rights of a user, which the current thread keeps. A process without root rights
// keeps its own.
func openFolderAs(uid, gid int, groups []int, dir string) error {
	if os.Geteuid() == 0 {
		if err := takeRights(uid, gid, groups); err != nil {
			return fmt.Errorf("take the rights of user %d: %w", uid, err)
		}
	}
	fd, err := unix.Open(dir+"/.", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "enter", Path: dir, Err: err}
	}
	return unix.Close(fd)
}

// takeRights gives the current thread a user's rights to files.
func takeRights(uid, gid int, groups []int) error {
	if err := unix.Setgroups(groups); err != nil { // of this thread only
		return err
	}
	for _, set := range []struct {
		id     int
		change func(int) (int, error)
	}{{gid, unix.SetfsgidRetGid}, {uid, unix.SetfsuidRetUid}} {
		if _, err := set.change(set.id); err != nil {
			return err
		}
		if now, err := set.change(-1); err != nil || now != set.id { // the calls report no failure
			return cmp.Or(err, error(unix.EPERM))
		}
	}
	return nil
}

// credentialsOf returns the numbers of a user and of the user's groups.
func credentialsOf(who *user.User) (uid, gid int, groups []int, err error) {
	names, err := who.GroupIds()
	if err != nil {
		return 0, 0, nil, fmt.Errorf("groups of user %s: %w", who.Username, err)
	}
	uid, first := strconv.Atoi(who.Uid)
	gid, second := strconv.Atoi(who.Gid)
	err = cmp.Or(first, second)
	for _, name := range names {
		n, bad := strconv.Atoi(name)
		groups, err = append(groups, n), errors.Join(err, bad)
	}
	return uid, gid, groups, err
}
