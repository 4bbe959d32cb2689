package layout

import "slices"

// PlanChange tells how a GPU gets from what it is cut into to one instance of each
// profile named: what is ended, and then what is made, both in order of place.
// Of what it has, made are those that may be ended; all others stay. As many of
// the made ones stay as go with the rest: none is ended where it need not be.
// Where both are empty the GPU is as is wanted.
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

// matchExisting parts what there is into what is wanted and what is left over, and
// tells what is missing.
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
