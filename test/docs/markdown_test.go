package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is a Markdown file of the repository.
type page struct {
	Name  string // from the root, with slashes
	Prose string // what is not in fences
	Code  []block
}

// block is one fenced block.
type block struct{ Lang, Text string }

// pages reads every Markdown file that belongs to the repository.
func pages(t *testing.T) []page {
	t.Helper()
	dir := root(t)
	var all []page
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if path != dir && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
				slices.Contains([]string{"bin", "node_modules", "testdata", "venv"}, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p := parsePage(string(text))
		p.Name = filepath.ToSlash(name)
		all = append(all, p)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 10)
	return all
}

func parsePage(text string) page {
	var p page
	var prose, code strings.Builder
	fence, lang := "", ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && strings.HasPrefix(trimmed, "```"):
			fence, lang = "```", strings.TrimSpace(strings.TrimLeft(trimmed, "`"))
			code.Reset()
		case fence != "" && trimmed == fence:
			p.Code = append(p.Code, block{Lang: lang, Text: code.String()})
			fence = ""
		case fence != "":
			code.WriteString(line)
		default:
			prose.WriteString(line)
		}
	}
	p.Prose = prose.String()
	return p
}

// spans are the `code spans` of a page's prose.
func (p page) spans() []string {
	var all []string
	for _, m := range codeSpan.FindAllStringSubmatch(p.Prose, -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	markup   = regexp.MustCompile("[`*]|\\]\\([^)]*\\)|\\[")
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// slugs are the anchors that GitHub gives a page's headings.
func (p page) slugs() []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(p.Prose, -1) {
		text := strings.ToLower(markup.ReplaceAllString(m[1], ""))
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(text, ""), " ", "-"))
	}
	return all
}

func TestPages_LinksResolve(t *testing.T) {
	t.Parallel()
	dir := root(t)
	byName := map[string]page{}
	for _, p := range pages(t) {
		byName[p.Name] = p
	}
	checked := 0
	for _, p := range byName {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.Prose, "x"), -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.Contains(target, "000N") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(target, "#")
			name := p.Name
			if file != "" {
				name = filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(p.Name)), filepath.FromSlash(file)))
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Errorf("%s: the link %q leads nowhere", p.Name, target)
					continue
				}
			}
			if anchor == "" {
				continue
			}
			if other, ok := byName[name]; !ok || !slices.Contains(other.slugs(), anchor) {
				t.Errorf("%s: the link %q leads to no heading", p.Name, target)
			}
		}
	}
	require.Greater(t, checked, 20, "the links were not found")
}

func TestParsePage(t *testing.T) {
	t.Parallel()
	p := parsePage("# The `API`: how, and why?\n\nSee [x](y.md#z) and `a.b`.\n\n```sh\nmake `demo`\n```\nEnd\n")
	require.Equal(t, []string{"the-api-how-and-why"}, p.slugs())
	require.Equal(t, []block{{Lang: "sh", Text: "make `demo`\n"}}, p.Code)
	require.Equal(t, []string{"API", "a.b"}, p.spans())
	require.NotContains(t, p.Prose, "demo")
}
