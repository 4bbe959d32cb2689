package request

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"sort"

	"mesos-gpu/framework/api"
)

// SortKey is the sort key of an entry in its list. The last field distinguishes entries
// that are otherwise equal; it is "" if there are none.
type SortKey []string

// orderFields are those by which the list is sorted; the tieBreaker is not.
func (k SortKey) orderFields() SortKey { return k[:len(k)-1] }

func (k SortKey) tieBreaker() string { return k[len(k)-1] }

// EncodeCursor returns the text of an entry's position in a list, for a page's Next.
func EncodeCursor(list string, k SortKey) string {
	text, err := json.Marshal(append(SortKey{list}, k...))
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// DecodeCursor parses the cursor of a page of the list, which must have so many fields.
// Its error is an *api.Problem.
func DecodeCursor(p api.PageRequest, list string, texts int) (SortKey, error) {
	var k SortKey
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil || len(k) != texts+1 || k[0] != list {
		return nil, InvalidCursor(p.After)
	}
	return k[1:], nil
}

// InvalidCursor returns the Problem of an after parameter that is not a cursor of the list.
func InvalidCursor(after string) *api.Problem {
	return api.NewProblemf(http.StatusBadRequest, "after %q is not a place in the list: use the next of the page before", after)
}

// CutPage cuts a page from a list that is sorted by keys with so many fields. Entries
// that are added or removed between two pages do not affect other entries. If the last
// entry of the previous page is removed, entries with equal keys may be repeated, but
// none is omitted.
func CutPage[T any](name string, texts int, list []T, p api.PageRequest, key func(list []T, at int) SortKey) (page []T, next string, err error) {
	from := 0
	if p.After != "" {
		last, err := DecodeCursor(p, name, texts)
		if err != nil {
			return nil, "", err
		}
		from = indexAfterCursor(list, last, key)
	}
	rest := list[from:]
	if p.Limit == 0 || len(rest) <= p.Limit {
		return rest, "", nil
	}
	return rest[:p.Limit], EncodeCursor(name, key(list, from+p.Limit-1)), nil
}

// indexAfterCursor returns the index of the first entry after last.
func indexAfterCursor[T any](list []T, last SortKey, key func(list []T, at int) SortKey) int {
	first := sort.Search(len(list), func(i int) bool { return slices.Compare(key(list, i).orderFields(), last.orderFields()) >= 0 })
	for i := first; i < len(list); i++ {
		k := key(list, i)
		if !slices.Equal(k.orderFields(), last.orderFields()) {
			break
		}
		if k.tieBreaker() == last.tieBreaker() {
			return i + 1
		}
	}
	return first
}
