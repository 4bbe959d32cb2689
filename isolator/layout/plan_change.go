package layout

import "slices"

// PlanChange returns the instances to destroy, and then those to create, to get from the GPU's
// instances has to one instance of each named profile. Both are sorted by place. Only the
// instances in made may be destroyed. As many of them as possible stay. If both results are
// empty the GPU has the wanted layout.
func PlanChange(profiles []InstanceProfile, has, made []GPUInstance, names []string) (end, create []GPUInstance, err error) {
	var ours, stay []GPUInstance
	for _, i := range has {
		if slices.Contains(made, i) {
			ours = append(ours, i)
		} else {
			stay = append(stay, i)
		}
	}
	kept, left, missing := matchExisting(ours, names)
	create, err = PlaceInstances(profiles, slices.Concat(stay, kept), missing)
	if err == nil {
		return left, create, nil
	}
	wanted, err := PlaceInstances(profiles, stay, names)
	if err != nil {
		return nil, nil, err
	}
	return excludeInstances(ours, wanted), excludeInstances(wanted, ours), nil
}

// matchExisting divides the existing instances into wanted and other ones, and returns the
// names of the wanted ones that are missing.
func matchExisting(has []GPUInstance, names []string) (kept, left []GPUInstance, missing []string) {
	missing = slices.Clone(names)
	for _, i := range has {
		if at := slices.Index(missing, i.Profile); at >= 0 {
			kept, missing = append(kept, i), slices.Delete(missing, at, at+1)
		} else {
			left = append(left, i)
		}
	}
	return kept, left, missing
}

func excludeInstances(list, others []GPUInstance) []GPUInstance {
	return slices.DeleteFunc(slices.Clone(list), func(i GPUInstance) bool { return slices.Contains(others, i) })
}
