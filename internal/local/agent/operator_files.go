package agent

import (
	"context"
	"fmt"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/files"
)

func readFile(a *EmbeddedAgent, _ context.Context, call *agent.Call) (*agent.Response, int, error) {
	c := call.ReadFile
	if c == nil {
		return nil, 0, missingField("read_file")
	}
	size, data, err := a.sandboxFiles().Read(c.Path, c.Offset, c.Length)
	if err != nil {
		return nil, 0, err
	}
	return &agent.Response{Type: agent.Response_READ_FILE, ReadFile: &agent.Response_ReadFile{Size_: size, Data: data}}, 0, nil
}

func listFiles(a *EmbeddedAgent, _ context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.ListFiles == nil {
		return nil, 0, missingField("list_files")
	}
	list, err := a.sandboxFiles().List(call.ListFiles.Path)
	if err != nil {
		return nil, 0, err
	}
	infos := make([]mesos.FileInfo, 0, len(list))
	for _, f := range list {
		infos = append(infos, fileInfo(f))
	}
	return &agent.Response{Type: agent.Response_LIST_FILES, ListFiles: &agent.Response_ListFiles{FileInfos: infos}}, 0, nil
}

func fileInfo(f files.SandboxFile) mesos.FileInfo {
	size := uint64(f.Info.Size())
	info := mesos.FileInfo{
		Path: f.Path, Size_: &size,
		Mtime: &mesos.TimeInfo{Nanoseconds: f.Info.ModTime().UnixNano()},
	}
	if st, ok := f.Info.Sys().(*syscall.Stat_t); ok {
		links, mode := int32(st.Nlink), st.Mode
		uid, gid := fmt.Sprint(st.Uid), fmt.Sprint(st.Gid)
		info.Nlink, info.Mode, info.UID, info.GID = &links, &mode, &uid, &gid
	}
	return info
}
