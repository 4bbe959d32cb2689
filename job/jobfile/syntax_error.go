package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntaxErrorLine matches the place in a syntax error of the YAML library.
var syntaxErrorLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// describeSyntaxError explains an error of the YAML library by the common mistake that the text has. It returns the
// library's message, with the place in a form of its own, if it finds none.
func describeSyntaxError(err error, text []byte) error {
	if err := findInvalidCharacter(text); err != nil {
		return err
	}
	var l layout
	if mistake := l.check(string(text)); mistake != nil {
		return mistake
	}
	message := err.Error()
	if m := syntaxErrorLine.FindStringSubmatch(message); m != nil {
		line, _ := strconv.Atoi(m[1])
		return &lineError{line: line, err: errors.New(message[len(m[0]):])}
	}
	return errors.New(strings.TrimPrefix(message, "yaml: "))
}

// findInvalidCharacter returns an error at the first byte of a text in UTF-8 that YAML does not allow, or nil.
// The YAML library reports these without their line.
func findInvalidCharacter(text []byte) error {
	line, column := 1, 0
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRune(text[i:])
		column++
		switch {
		case r == utf8.RuneError && width == 1:
			return &lineError{line: line, column: column, err: fmt.Errorf("the byte 0x%02x is not UTF-8", text[i])}
		case r < ' ' && !strings.ContainsRune("\t\n\r", r), r == 0x7f:
			return &lineError{
				line:   line,
				column: column,
				err:    fmt.Errorf("the control character %U is not allowed: write it as an escape in double quotes, \"\\x%02x\"", r, r),
			}
		case r == '\n':
			line, column = line+1, 0
		}
		i += width
	}
	return nil
}

// layout finds common mistakes in a text that is not YAML: indentation, quotes, brackets and colons. It reads the text line
// by line and need not understand all of YAML, because the library has rejected the text already.
type layout struct {
	line int // the number of the present line
	text string
	// levels are the indentations of the mappings and lists around the present line, outermost first and so in
	// ascending order.
	levels []indentation
	// previous is the last line with a key or an item, and complete is set if that has a value.
	previous int
	complete bool
	// block is the indentation of the key whose value is a block of text (| or >), or -1.
	block int
	// open are the quotes and brackets that are not closed yet.
	open []opening
}

type indentation struct{ spaces, line int }

type opening struct {
	char         byte
	line, column int
}

// check returns the first mistake, or nil.
func (l *layout) check(text string) error {
	l.block = -1
	for line := range strings.Lines(text) {
		l.line++
		l.text = strings.TrimRight(line, "\r\n")
		if err := l.checkLine(); err != nil {
			return err
		}
	}
	if len(l.open) > 0 {
		o := l.open[0]
		return &lineError{line: o.line, column: o.column, err: fmt.Errorf("the %c is not closed", o.char)}
	}
	return nil
}

// mistake returns an error at a byte of the present line.
func (l *layout) mistake(at int, format string, args ...any) error {
	return &lineError{line: l.line, column: 1 + utf8.RuneCountInString(l.text[:at]), err: fmt.Errorf(format, args...)}
}

func (l *layout) checkLine() error {
	if len(l.open) > 0 {
		return l.checkEnclosed(0)
	}
	at := len(l.text) - len(strings.TrimLeft(l.text, " "))
	rest := l.text[at:]
	if blank := strings.TrimSpace(rest) == ""; blank || l.block >= 0 && at > l.block {
		return nil
	}
	l.block = -1
	switch {
	case rest[0] == '#' || at == 0 && rest[0] == '%':
		return nil
	case rest[0] == '\t':
		return l.mistake(at, "a tab in the indentation: replace it by spaces")
	case at == 0 && (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")):
		*l = layout{line: l.line, block: -1}
		return nil
	}
	isItem := false
	for rest == "-" || strings.HasPrefix(rest, "- ") {
		if err := l.enterLevel(at, true); err != nil {
			return err
		}
		isItem, l.complete, l.previous = true, false, l.line
		after := strings.TrimLeft(rest[1:], " ")
		at += len(rest) - len(after)
		rest = after
	}
	if rest == "" {
		return nil
	}
	return l.checkContent(at, isItem)
}

// enterLevel compares the indentation of a line, or of what follows a dash in it, with the lines before.
func (l *layout) enterLevel(spaces int, startsEntry bool) error {
	if len(l.levels) == 0 {
		l.levels = append(l.levels, indentation{spaces, l.line})
		return nil
	}
	inner := l.levels[len(l.levels)-1]
	for len(l.levels) > 0 && l.levels[len(l.levels)-1].spaces > spaces {
		inner = l.levels[len(l.levels)-1]
		l.levels = l.levels[:len(l.levels)-1]
	}
	if len(l.levels) > 0 && l.levels[len(l.levels)-1].spaces == spaces {
		return nil
	}
	switch {
	case inner.spaces > spaces && len(l.levels) == 0:
		return l.mistake(spaces, "indented by %s, and line %d before it by %d: indent both alike", countSpaces(spaces), inner.line, inner.spaces)
	case inner.spaces > spaces:
		outer := l.levels[len(l.levels)-1]
		return l.mistake(spaces, "indented by %s: use %d as line %d, or %d as line %d", countSpaces(spaces), outer.spaces, outer.line, inner.spaces, inner.line)
	case l.complete && startsEntry:
		return l.mistake(spaces, "indented by %s, more than line %d, which has a value already: use %d", countSpaces(spaces), l.previous, inner.spaces)
	}
	l.levels = append(l.levels, indentation{spaces, l.line})
	return nil
}

func (l *layout) hasLevel(spaces int) bool {
	_, found := slices.BinarySearchFunc(l.levels, spaces, func(i indentation, spaces int) int { return cmp.Compare(i.spaces, spaces) })
	return found
}

func countSpaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

var (
	missingSpace = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*:[^\s/:]`)
	quotedKey    = regexp.MustCompile(`^("[^"]*"|'[^']*') *:( |$)`)
)

// checkContent checks the text from a byte of the line on: a key with its value, an item of a list, or the continuation of
// a value.
func (l *layout) checkContent(at int, isItem bool) error {
	rest := l.text[at:]
	if !isItem && l.complete && len(l.levels) > 0 && at > l.levels[len(l.levels)-1].spaces && findColon(rest) < 0 {
		return nil // a value of several lines
	}
	if m := quotedKey.FindString(rest); m != "" {
		return l.checkKey(at, at+strings.LastIndexByte(m, ':'))
	}
	if strings.IndexByte(`"'[{`, rest[0]) >= 0 {
		l.complete = true
		return l.checkEnclosed(at)
	}
	if colon := findColon(rest); colon >= 0 {
		return l.checkKey(at, at+colon)
	}
	switch {
	case isItem:
		l.complete = true
		return l.checkValue(at)
	case missingSpace.MatchString(rest):
		return l.mistake(at+strings.IndexByte(rest, ':')+1, "a space is missing after the colon")
	case l.previous > 0 && l.hasLevel(at):
		return l.mistake(at, "%q has no colon: write KEY: VALUE", strings.Fields(rest)[0])
	}
	l.complete = true
	return nil
}

// checkKey checks a key that starts at a byte of the line, and its value after the colon.
func (l *layout) checkKey(at, colon int) error {
	if err := l.enterLevel(at, true); err != nil {
		return err
	}
	l.previous, l.complete = l.line, false
	value := strings.TrimLeft(l.text[colon+1:], " \t")
	if value == "" || value[0] == '#' {
		return nil
	}
	l.complete = true
	if value[0] == '|' || value[0] == '>' {
		l.block = at
		return nil
	}
	return l.checkValue(len(l.text) - len(value))
}

// checkValue checks a value that starts at a byte of the line.
func (l *layout) checkValue(at int) error {
	value := l.text[at:]
	switch value[0] {
	case '"', '\'', '[', '{':
		return l.checkEnclosed(at)
	case '@', '`', '%', '*':
		return l.mistake(at, "a value cannot start with %c: put it in quotes", value[0])
	}
	if colon := findColon(value); colon >= 0 {
		return l.mistake(at+colon, "a colon within the value: put the value in quotes")
	}
	return nil
}

// findColon returns the place of the first colon in a text without quotes that ends a key, or -1.
func findColon(text string) int {
	if comment := strings.Index(text, " #"); comment >= 0 {
		text = text[:comment]
	}
	if i := strings.Index(text, ": "); i >= 0 {
		return i
	}
	if strings.HasSuffix(text, ":") {
		return len(text) - 1
	}
	return -1
}

// checkEnclosed reads what is in quotes or brackets, from a byte of the line on. Only a comment may follow.
func (l *layout) checkEnclosed(at int) error {
	closing := map[byte]byte{'[': ']', '{': '}'}
	column, counted := 1, 0 // the column of the byte up to which the characters are counted
	for i := at; i < len(l.text); i++ {
		c := l.text[i]
		var inner opening
		if len(l.open) > 0 {
			inner = l.open[len(l.open)-1]
		}
		closed := false
		switch {
		case inner.char == '"' && c == '\\', inner.char == '\'' && strings.HasPrefix(l.text[i:], "''"):
			i++
		case inner.char == '"' || inner.char == '\'':
			closed = c == inner.char
		case c == '#' && (i == 0 || l.text[i-1] == ' '):
			return nil
		case c == '"' || c == '\'' || c == '[' || c == '{':
			if before := strings.TrimRight(l.text[:i], " "); (c == '"' || c == '\'') && len(l.open) > 0 && before != "" && !strings.HasSuffix(before, ",") &&
				!strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "[") && !strings.HasSuffix(before, "{") {
				continue // within a word
			}
			column, counted = column+utf8.RuneCountInString(l.text[counted:i]), i
			l.open = append(l.open, opening{c, l.line, column})
		case c == closing[inner.char] && c != 0:
			closed = true
		case c == ']' || c == '}':
			return l.mistake(i, "the %c of line %d is closed by %c", inner.char, inner.line, c)
		}
		if !closed {
			continue
		}
		l.open = l.open[:len(l.open)-1]
		after := strings.TrimLeft(l.text[i+1:], " \t")
		if len(l.open) > 0 || after == "" || after[0] == '#' || after[0] == ':' {
			continue
		}
		return l.mistake(len(l.text)-len(after), "text after the %c that ends the value of line %d: put the whole value in quotes", c, inner.line)
	}
	return nil
}
