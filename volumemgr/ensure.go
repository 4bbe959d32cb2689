package volumemgr

import "context"

// Ensure finds the driver below root, makes sure that its volume stands whole
// in the store dir, and returns the volume's path.
func Ensure(ctx context.Context, root, dir string) (path string, err error) {
	driver, err := Find(root)
	if err != nil {
		return "", err
	}
	volume, err := Store{Dir: dir}.Create(ctx, driver)
	return volume.Path, err
}
