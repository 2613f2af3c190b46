package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The tables lie between these on a page.
const (
	PageBegin = "<!-- bench:begin -->"
	PageEnd   = "<!-- bench:end -->"
)

// ErrNoMarks is a page without one begin and one end, in that order.
var ErrNoMarks = errors.New("the page must hold " + PageBegin + " and, after it, " + PageEnd + ", once each")

// Place puts tables between the marks of a page's text, in place of what was there.
func Place(page, tables string) (string, error) {
	before, rest, ok := strings.Cut(page, PageBegin)
	_, after, ok2 := strings.Cut(rest, PageEnd)
	if !ok || !ok2 || strings.Contains(rest, PageBegin) || strings.Contains(before, PageEnd) || strings.Contains(after, PageEnd) {
		return "", ErrNoMarks
	}
	return before + PageBegin + "\n" + strings.TrimSpace(tables) + "\n" + PageEnd + after, nil
}

// UpdatePage does so with a file.
func (r *Result) UpdatePage(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("update page: %w", err)
	}
	var tables strings.Builder
	if err := r.WriteTables(&tables); err != nil {
		return err
	}
	page, err := Place(string(text), tables.String())
	if err != nil {
		return fmt.Errorf("update %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("update page: %w", err)
	}
	return nil
}

// CheckPage says beforehand whether a file can be updated: a run is long.
func CheckPage(file string) error {
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = Place(string(text), "")
	}
	if err != nil {
		return fmt.Errorf("update page: %w", err)
	}
	return nil
}
