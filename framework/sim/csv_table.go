package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of a file: its decompressed bytes and its rows.
const (
	maxBytes = 2 << 30
	maxRows  = 10_000_000
)

// csvTable reads a CSV file with a header, plain or gzip, row by row. Every error has the file, the line and the column.
type csvTable struct {
	// name is the file's, for errors.
	name string
	// csv reads the rows; column has the position of each column by its name in the header.
	csv    *csv.Reader
	column map[string]int
	// row is the current one, and rows counts them. err is the first error; reading ends with it.
	row  []string
	rows int
	err  error
}

// newCSVTable reads the header. The required columns must be in it, in any order; other columns are allowed and not read.
func newCSVTable(r io.Reader, name string, required ...string) (*csvTable, error) {
	plain, err := decompress(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	t := &csvTable{name: name, csv: csv.NewReader(&limitedReader{from: plain, left: maxBytes}), column: map[string]int{}}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: its first line must name the columns %s", name, strings.Join(required, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for i, column := range header {
		if _, twice := t.column[column]; twice {
			return nil, fmt.Errorf("%s:1: column %s comes twice", name, column)
		}
		t.column[strings.Clone(column)] = i
	}
	for _, column := range required {
		if _, ok := t.column[column]; !ok {
			return nil, fmt.Errorf("%s:1: there is no column %s among %s", name, column, strings.Join(header, ", "))
		}
	}
	return t, nil
}

// decompress returns the decompressed content if the file starts like gzip.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return b, nil // nextRow reports short files
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("unpack gzip: %w", err)
	}
	return z, nil
}

// limitedReader returns an error where io.LimitReader would return EOF.
type limitedReader struct {
	from io.Reader
	// left is how many bytes may still be read.
	left int64
}

// Read reads at most what is left of the limit.
func (r *limitedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes", int64(maxBytes))
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// nextRow reads a row, and returns false at the end and after an error.
func (t *csvTable) nextRow() bool {
	if t.err != nil {
		return false
	}
	row, err := t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return false
	case err != nil:
		t.err = fmt.Errorf("read %s: %w", t.name, err)
	case t.rows == maxRows:
		t.err = fmt.Errorf("%s has more than %d rows", t.name, maxRows)
	}
	t.row = row
	t.rows++
	return t.err == nil
}

// cellText returns a cell of the row, "" if the file has no such column.
func (t *csvTable) cellText(column string) string {
	i, ok := t.column[column]
	if !ok {
		return ""
	}
	return strings.Clone(t.row[i])
}

// cellNumber returns a cell from 0 to most. Any other value is an error of the table.
func (t *csvTable) cellNumber(column string, most int64) int64 {
	s := t.cellText(column)
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		t.rejectCell(column, "%q is not a whole number", s)
	case err != nil || n < 0 || n > most:
		t.rejectCell(column, "%s is not from 0 to %d", s, most)
	}
	return n
}

// rejectCell ends the table with an error about a cell, unless there was an earlier error.
func (t *csvTable) rejectCell(column, format string, args ...any) {
	if t.err == nil {
		line, at := t.csv.FieldPos(t.column[column])
		t.err = fmt.Errorf("%s:%d:%d: column %s: %s", t.name, line, at, column, fmt.Sprintf(format, args...))
	}
}
