package replay

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// columnReader reads the named columns of a CSV file.
type columnReader struct {
	name string // of the file, for errors
	csv  *csv.Reader
	// at has the position of each column, and row its value in the current row. The next row overwrites it.
	at  []int
	row []string
}

// openColumns reads the header and finds the columns, which may be in any order.
func openColumns(r io.Reader, name string, columns ...string) (*columnReader, error) {
	t := &columnReader{name: name, csv: csv.NewReader(bufio.NewReader(r)), row: make([]string, len(columns))}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if err != nil {
		return nil, fmt.Errorf("read the first line of %s: %w", name, err)
	}
	for _, c := range columns {
		at := slices.Index(header, c)
		if at < 0 {
			return nil, fmt.Errorf("%s:1: there is no column %q among %s", name, c, strings.Join(header, ", "))
		}
		t.at = append(t.at, at)
	}
	return t, nil
}

// openRows returns a reader of a file without a header, of which each row has so many columns.
func openRows(r io.Reader, name string, columns int) *columnReader {
	t := &columnReader{name: name, csv: csv.NewReader(bufio.NewReader(r)), row: make([]string, columns)}
	t.csv.ReuseRecord, t.csv.FieldsPerRecord = true, columns
	for i := range columns {
		t.at = append(t.at, i)
	}
	return t
}

// nextRow returns the columns of the next row, and its line.
func (r *columnReader) nextRow() ([]string, int, error) {
	row, err := r.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, 0, io.EOF
	case errors.Is(err, csv.ErrFieldCount):
		row = append(slices.Clone(row), make([]string, len(r.at)+8)...) // what is missing is refused as empty
	case err != nil:
		return nil, 0, fmt.Errorf("read %s: %w", r.name, err)
	}
	for i, at := range r.at {
		r.row[i] = row[min(at, len(row)-1)]
	}
	line, _ := r.csv.FieldPos(0)
	return r.row, line, nil
}

// eachRow calls take with the columns of each row and its line, until it returns an error.
func (r *columnReader) eachRow(take func(row []string, line int) error) error {
	for {
		row, line, err := r.nextRow()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(row, line); err != nil {
			return err
		}
	}
}

// readRecords parses each row to a record. It calls bad with the error of each row that parse rejects and skips the row;
// with a nil bad such a row is an error. Rows that parse returns false for are counted in left.
func (r *columnReader) readRecords(bad func(error), parse func(row []string, line int) (JobRecord, bool, error)) (list []JobRecord, left int, err error) {
	err = r.eachRow(func(row []string, line int) error {
		w, ok, err := parse(row, line)
		switch {
		case err != nil && bad == nil:
			return fmt.Errorf("%s:%d: %w", r.name, line, err)
		case err != nil:
			bad(fmt.Errorf("%s:%d: %w", r.name, line, err))
		case !ok:
			left++
		case len(list) == maxRows:
			return fmt.Errorf("%s has more than %d rows", r.name, maxRows)
		default:
			list = append(list, w)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if len(list) == 0 {
		return nil, 0, fmt.Errorf("%s has no job that can be replayed", r.name)
	}
	return list, left, nil
}

// parseSeconds parses a time or a duration in seconds; an empty one is -1.
func parseSeconds(column, text string) (time.Duration, error) {
	if text == "" || strings.EqualFold(text, "nan") {
		return -1, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return -1, fmt.Errorf("%s %q: want seconds", column, text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// parseAmount parses a number from 0 to most; an empty one is 0.
func parseAmount(column, text string, most float64) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("%s %q: want a number from 0 to %g", column, text, most)
	}
	return n, nil
}
