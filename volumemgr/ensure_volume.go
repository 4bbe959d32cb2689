package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// EnsureVolume finds the driver and creates or completes its volume in the store. If the
// libraries of the kernel module's version are not installed any more, it returns the
// existing volume, see Store.ExistingVolume.
func EnsureVolume(ctx context.Context, search DriverSearch, store Store) (DriverVolume, error) {
	driver, err := search.Find()
	if err != nil {
		return store.ExistingVolume(err)
	}
	return store.Create(ctx, driver)
}

// ExistingVolume returns the volume of the kernel module's version if findErr, an error of
// DriverSearch.Find, says that libraries of that version are missing: after an update of
// the driver's packages, until the restart, tasks need the volume that was made before. It
// changes nothing. It returns findErr if there is no such volume, or none that tasks can
// use.
func (s Store) ExistingVolume(findErr error) (DriverVolume, error) {
	incomplete := (*IncompleteDriverError)(nil)
	if !errors.As(findErr, &incomplete) || !incomplete.ModuleLoaded {
		return DriverVolume{}, findErr
	}
	name := volumePrefix + incomplete.Version
	path, err := s.volumePath(name)
	if err != nil {
		return DriverVolume{}, errors.Join(findErr, err)
	}
	damage, err := checkUsable(path)
	switch {
	case errors.Is(err, ErrNoVolume):
		return DriverVolume{}, findErr
	case err != nil:
		return DriverVolume{}, errors.Join(findErr, err)
	case len(damage) > 0:
		return DriverVolume{}, fmt.Errorf("%w; and the volume %s is damaged: %s", findErr, name, describeDamage(damage))
	}
	return describeVolume(path)
}

func describeDamage(damage []FileDamage) string {
	var texts []string
	for _, d := range damage {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, "; ")
}

// RepairVolume repairs the volume that EnsureVolume returns, and returns what was damaged.
func RepairVolume(ctx context.Context, search DriverSearch, store Store) ([]FileDamage, error) {
	driver, findErr := search.Find()
	if findErr == nil {
		_, damage, err := store.Repair(ctx, driver)
		return damage, err
	}
	volume, err := store.ExistingVolume(findErr)
	if err != nil {
		return nil, err
	}
	damage, err := store.Verify(ctx, volume.Name)
	if err == nil && len(damage) > 0 {
		err = fmt.Errorf("repair volume %s: %w", volume.Name, findErr)
	}
	return damage, err
}
