package zkconn

import (
	"fmt"
	"net"
	"path"
	"strings"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/internal/secret"
)

// URLScheme is the prefix of the address of a folder in ZooKeeper.
const URLScheme = "zk://"

const defaultPort = "2181"

// TargetFolder is a folder in ZooKeeper.
type TargetFolder struct {
	// Hosts are HOST:PORT pairs.
	Hosts []string
	// Path is the folder, such as /mesos-gpu.
	Path string
	// AuthFile holds USER:PASSWORD for digest authentication. If it is empty, every
	// client of ZooKeeper may read and write the folder.
	AuthFile string
}

// ParseTarget parses zk://HOST[:PORT][,HOST[:PORT]...]/PATH.
func ParseTarget(url string) (TargetFolder, error) {
	var t TargetFolder
	refuse := func(why string) (TargetFolder, error) {
		return TargetFolder{}, fmt.Errorf("address %q: %s: write zk://HOST:PORT,HOST:PORT/PATH", url, why)
	}
	rest, ok := strings.CutPrefix(url, URLScheme)
	if !ok {
		return refuse("it does not begin with " + URLScheme)
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		url = URLScheme + "…" + rest[i:]
		return refuse("a password there is seen by everybody: put USER:PASSWORD into a file")
	}
	hosts, folder, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return refuse("a host is missing")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		t.Hosts = append(t.Hosts, host)
	}
	if t.Path = path.Clean("/" + folder); t.Path == "/" {
		return refuse("a path of its own is missing")
	}
	return t, nil
}

func (t TargetFolder) String() string { return URLScheme + strings.Join(t.Hosts, ",") + t.Path }

// maxAuth limits the size of USER:PASSWORD, in bytes.
const maxAuth = 4096

// ReadAuthFile reads a file with USER:PASSWORD for ZooKeeper. It logs a warning if other
// users may read the file.
func ReadAuthFile(file string, log logrus.FieldLogger) (auth string, err error) {
	auth, warning, err := secret.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the password for ZooKeeper: %w", err)
	}
	user, password, _ := strings.Cut(auth, ":")
	if user == "" || password == "" || len(auth) > maxAuth || strings.ContainsAny(auth, "\r\n") {
		return "", fmt.Errorf("read the password for ZooKeeper: %s is not one line of the form user:password", file)
	}
	if warning != "" {
		log.Warn(warning)
	}
	return auth, nil
}
