package api

// PageRequest selects a part of a list.
type PageRequest struct {
	// Limit is the largest number of entries, up to MaxPageLimit; 0 means all.
	Limit int
	// After is the Next of the previous page, or "" for the first page.
	After string
}

// MaxPageLimit is the largest limit of a page.
const MaxPageLimit = 10_000
