package artifacts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
)

// bucketScheme begins the location of an S3-compatible store.
const bucketScheme = "s3://"

// IsBucket reports whether a location is s3://BUCKET or s3://BUCKET/PREFIX.
func IsBucket(location string) bool { return strings.HasPrefix(location, bucketScheme) }

// defaultEndpoint is the endpoint of AWS.
const defaultEndpoint = "https://s3.amazonaws.com"

// bucketStorage is a bucket of an S3-compatible store, or the part of it whose keys begin with a prefix.
type bucketStorage struct {
	client         *minio.Client
	bucket, prefix string
}

// newBucketStorage reads the address of the store from the variables of AWS's own clients, and the credentials from their
// variables, their file or the machine's role. No error contains a credential.
func newBucketStorage(location string, getenv func(string) string) (*bucketStorage, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(location, bucketScheme), "/")
	address := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), defaultEndpoint)
	endpoint, err := url.Parse(address)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.User != nil {
		return nil, errors.New("AWS_ENDPOINT_URL: write http://HOST:PORT or https://HOST")
	}
	if bucket == "" {
		return nil, fmt.Errorf("%q has no bucket: write s3://BUCKET/PREFIX", location)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: endpoint.Scheme == "https", Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	return &bucketStorage{client, bucket, strings.Trim(prefix, "/")}, nil
}

// bucketError marks the error about a missing object as fs.ErrNotExist. A missing bucket is no missing object: it is a
// mistake of the configuration, and copies must be repeated until it is corrected.
func bucketError(err error) error {
	if r := minio.ToErrorResponse(err); r.StatusCode == http.StatusNotFound && r.Code != minio.NoSuchBucket {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

func (s *bucketStorage) readFile(ctx context.Context, name string) ([]byte, error) {
	object, err := s.client.GetObject(ctx, s.bucket, path.Join(s.prefix, name), minio.GetObjectOptions{})
	if err != nil {
		return nil, bucketError(err)
	}
	defer object.Close()
	text, err := io.ReadAll(object)
	return text, bucketError(err)
}

func (s *bucketStorage) writeFile(ctx context.Context, name string, text []byte) error {
	return s.put(ctx, path.Join(s.prefix, name), bytes.NewReader(text), int64(len(text)))
}

// put writes an object. It takes effect as a whole, after the last byte.
func (s *bucketStorage) put(ctx context.Context, key string, from io.Reader, size int64) error {
	// The signature of an empty stream is sent without its length, which stores require.
	_, err := s.client.PutObject(ctx, s.bucket, key, from, size, minio.PutObjectOptions{DisableContentSha256: size == 0})
	return err
}

// newUpload removes what an earlier job of the name has left. A report is written last, so that no reader finds a folder
// that is incomplete.
func (s *bucketStorage) newUpload(ctx context.Context, folder string) (upload, error) {
	key := path.Join(s.prefix, folder)
	return &bucketUpload{s, key}, s.removeBelow(ctx, key)
}

// removeBelow removes all objects below a key.
func (s *bucketStorage) removeBelow(ctx context.Context, key string) error {
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: key + "/", Recursive: true}) {
		if o.Err != nil {
			return o.Err
		}
		if err := s.client.RemoveObject(ctx, s.bucket, o.Key, minio.RemoveObjectOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *bucketStorage) remove(ctx context.Context, folder string) error {
	key := path.Join(s.prefix, folder)
	if err := s.removeBelow(ctx, key); err != nil {
		return err
	}
	return s.client.RemoveObject(ctx, s.bucket, key+reportSuffix, minio.RemoveObjectOptions{})
}

func (s *bucketStorage) listReports(ctx context.Context) (names []string, err error) {
	prefix := strings.TrimPrefix(s.prefix+"/", "/")
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		if name := strings.TrimPrefix(o.Key, prefix); isReport(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *bucketStorage) listFiles(ctx context.Context, folder string) (files []storedFile, err error) {
	prefix := path.Join(s.prefix, folder) + "/"
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, o.Err
		}
		files = append(files, storedFile{name: path.Base(o.Key), bytes: o.Size, modified: o.LastModified})
	}
	return files, nil
}

func (s *bucketStorage) removeFile(ctx context.Context, name string) error {
	return s.client.RemoveObject(ctx, s.bucket, path.Join(s.prefix, name), minio.RemoveObjectOptions{})
}

// bucketUpload writes objects below a key. Objects without a report are replaced by the next copy.
type bucketUpload struct {
	storage *bucketStorage
	key     string
}

func (u *bucketUpload) makeFolder(string) error { return nil } // a bucket has no empty folders

func (u *bucketUpload) writeFile(ctx context.Context, name string, from io.Reader, size int64) error {
	return u.storage.put(ctx, path.Join(u.key, name), from, size)
}

func (u *bucketUpload) commit() error { return nil }
func (u *bucketUpload) close()        {}

func (s *bucketStorage) openSandbox(folder string) request.TaskSandbox {
	return bucketSandbox{s, path.Join(s.prefix, folder)}
}

// bucketSandbox serves the copied artifacts of a task like its sandbox. Folders exist only as parts of keys.
type bucketSandbox struct {
	storage *bucketStorage
	key     string
}

func (s bucketSandbox) ListFiles(ctx context.Context, name string) ([]api.SandboxFile, error) {
	key := path.Join(s.key, name)
	var files []api.SandboxFile
	for o := range s.storage.client.ListObjectsIter(ctx, s.storage.bucket, minio.ListObjectsOptions{Prefix: key + "/"}) {
		if o.Err != nil {
			return nil, o.Err
		}
		f := api.SandboxFile{Name: path.Base(o.Key), Folder: strings.HasSuffix(o.Key, "/"), Bytes: o.Size, Mode: "644", Modified: o.LastModified.UTC()}
		if f.Folder {
			f.Mode = "755"
		}
		files = append(files, f)
	}
	if len(files) > 0 {
		return files, nil
	}
	_, err := s.storage.client.StatObject(ctx, s.storage.bucket, key, minio.StatObjectOptions{})
	return nil, storedError(bucketError(err))
}

func (s bucketSandbox) ReadFile(ctx context.Context, name string, offset, length uint64) (data []byte, size uint64, err error) {
	object, err := s.storage.client.GetObject(ctx, s.storage.bucket, path.Join(s.key, name), minio.GetObjectOptions{})
	if err != nil {
		return nil, 0, storedError(bucketError(err))
	}
	defer object.Close()
	info, err := object.Stat()
	if err != nil {
		return nil, 0, storedError(bucketError(err))
	}
	size = uint64(info.Size)
	data = make([]byte, min(length, readSize, size-min(offset, size)))
	if len(data) == 0 {
		return data, size, nil
	}
	n, err := object.ReadAt(data, int64(offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return data[:n], size, nil
}
