package volumemgr

import "context"

// EnsureVolume finds the driver below root and creates or completes its volume in
// the store dir.
func EnsureVolume(ctx context.Context, root, dir string) (DriverVolume, error) {
	driver, err := FindDriver(root)
	if err != nil {
		return DriverVolume{}, err
	}
	return Store{Dir: dir}.Create(ctx, driver)
}
