package volumemgr

import "context"

// Ensure finds the driver below root, makes sure that its volume stands whole
// in the store dir.
func Ensure(ctx context.Context, root, dir string) (Volume, error) {
	driver, err := Find(root)
	if err != nil {
		return Volume{}, err
	}
	return Store{Dir: dir}.Create(ctx, driver)
}
