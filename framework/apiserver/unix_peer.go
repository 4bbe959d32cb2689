package apiserver

import (
	"context"
	"net"
	"net/netip"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

// withPeer attaches the user of a connection of a LimitedListener to its requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	one, ok := c.(*limitedConn)
	if !ok || one.peer == nil {
		return ctx
	}
	return apihttp.WithPeer(ctx, identifyPeer(one.peer))
}

// identifyPeer returns the names of a user and of its groups. An account that the machine
// does not know has its number as its name.
func identifyPeer(cred *unix.Ucred) access.Identity {
	who := access.Identity{Name: job.UnixUserPrefix + strconv.Itoa(int(cred.Uid))}
	gids := []string{strconv.Itoa(int(cred.Gid))}
	if account, err := user.LookupId(strconv.Itoa(int(cred.Uid))); err == nil {
		who.Name = job.UnixUserPrefix + account.Username
		if all, err := account.GroupIds(); err == nil {
			gids = all
		}
	}
	for _, gid := range gids {
		if g, err := user.LookupGroupId(gid); err == nil {
			who.Groups = append(who.Groups, job.UnixUserPrefix+g.Name)
		}
	}
	return who
}

// addressOfUser returns an address that stands for a user of a unix socket, so that the
// limits of an address apply to each user. No client has an address with this prefix,
// which is reserved for documentation.
func addressOfUser(uid uint32) netip.Addr {
	a := [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 12: byte(uid >> 24), 13: byte(uid >> 16), 14: byte(uid >> 8), 15: byte(uid)}
	return netip.AddrFrom16(a)
}
