package job

import (
	"strconv"
	"strings"
	"unicode"
)

// Reference is how a user names a job: [OWNER/]NAME, [OWNER/]NAME@RUN, or the number of a run.
type Reference struct {
	// Owner is "" if the text names none. Run is 0 for the newest run.
	Owner, Name string
	Run         int
	// Number is the number that the whole text is, or 0.
	Number int
}

// ParseReference parses a reference. It returns false if the part after the @ is no number of a run. It does not check the
// names.
func ParseReference(text string) (r Reference, ok bool) {
	slash := strings.LastIndexByte(text, '/') // owners may contain slashes and @, names do not
	id, ok := ParseRunID(text[slash+1:])
	r = Reference{Name: id.Name, Run: id.Run}
	if slash > 0 {
		r.Owner = text[:slash]
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && strconv.Itoa(n) == text {
		r.Number = n
	}
	return r, ok && slash != 0
}

// maxReferenceOwner limits the owner in a reference of a job file, in bytes.
const maxReferenceOwner = 256

// isReference reports whether a text may be a reference to a job.
func isReference(text string) bool {
	r, ok := ParseReference(text)
	return ok && namePattern.MatchString(r.Name) && len(r.Owner) <= maxReferenceOwner && !strings.ContainsFunc(r.Owner, unicode.IsControl)
}

// HasOwner reports whether a job belongs to the owner of a reference. A user of the scheduler's machine may be named without
// UnixUserPrefix. The owner of a job that no user has submitted, such as an app of Marathon, is its role.
func (r *Reference) HasOwner(s *Spec) bool {
	switch r.Owner {
	case "", s.Owner:
		return true
	case s.Role:
		return s.Owner == ""
	}
	return r.Owner == UnixUser(s.Owner)
}

// QualifiedName returns OWNER/NAME, by which users name a job in full.
func (s *Spec) QualifiedName() string {
	owner := s.Owner
	if owner == "" {
		owner = s.Role
	}
	return owner + "/" + s.Name
}

// QualifiedNames returns the qualified names of the jobs of runs.
func QualifiedNames[T interface{ Self() *Job }](runs []T) (names []string) {
	for _, run := range runs {
		names = append(names, run.Self().Spec.QualifiedName())
	}
	return names
}

// Resolve returns the run that a requester means by a reference, among those whose roles the requester sees. A name means a
// job of the requester, otherwise the only one that the requester sees. NAME@RUN is a single run of any owner. A number
// means a job of the requester with that name, otherwise the run with that number. exact is true if the reference names a
// single run and not the newest one of a job. If there is no such run, found is false; candidates are then the newest runs of
// the jobs that the name may mean, if there are several.
//
// All references of users are resolved here.
func (t *RunTable[T]) Resolve(text, requester string, sees func(role string) bool) (run T, exact, found bool, candidates []T) {
	ref, ok := ParseReference(text)
	if !ok {
		return run, false, false, nil
	}
	if ref.Run != 0 {
		one, ok := t.FindRun(RunID{ref.Name, ref.Run})
		if ok && ref.HasOwner(one.Self().Spec) && sees(one.Self().Spec.Role) {
			return one, true, true, nil
		}
		return run, false, false, nil
	}
	named := t.newestByOwner(&ref, sees)
	for _, one := range named {
		if ref.Owner == "" && one.Self().Spec.Owner == requester {
			return one, false, true, nil
		}
	}
	byNumber, hasNumber := t.numbers[ref.Number]
	if hasNumber && sees(byNumber.Self().Spec.Role) {
		return byNumber, true, true, nil
	}
	if len(named) != 1 {
		return run, false, false, named
	}
	return named[0], false, true, nil
}

// newestByOwner returns the newest visible run of each owner with the name and the owner of a reference, oldest first.
func (t *RunTable[T]) newestByOwner(ref *Reference, sees func(role string) bool) (named []T) {
	owners := map[string]bool{}
	runs := t.RunsOf(ref.Name)
	for i := len(runs) - 1; i >= 0; i-- {
		spec := runs[i].Self().Spec
		if owners[spec.Owner] || !ref.HasOwner(spec) || !sees(spec.Role) {
			continue
		}
		owners[spec.Owner] = true
		named = append([]T{runs[i]}, named...)
	}
	return named
}
