package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// table is a Markdown table, its first row the head.
type table [][]string

func (t table) write(b *strings.Builder) {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			fmt.Fprintf(b, "| %-*s ", width[i], cell)
		}
		b.WriteString("|\n")
	}
	line(t[0])
	for i := range t[0] {
		b.WriteString("|" + strings.Repeat("-", width[i]+2))
	}
	b.WriteString("|\n")
	for _, row := range t[1:] {
		line(row)
	}
}

// span is a length of time for people: its two largest units, "25h 11m", "12.5s".
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	if r := d.Round(100 * time.Millisecond); r < time.Minute {
		return strconv.FormatFloat(r.Seconds(), 'f', -1, 64) + "s"
	}
	if r := d.Round(time.Second); r < time.Hour {
		return units(int(r/time.Minute), "m", int(r%time.Minute/time.Second), "s")
	}
	r := d.Round(time.Minute)
	if day := 24 * time.Hour; r >= 3*day && r%day == 0 {
		return strconv.Itoa(int(r/day)) + "d"
	}
	return units(int(r/time.Hour), "h", int(r%time.Hour/time.Minute), "m")
}

func units(large int, unit string, small int, smaller string) string {
	if small == 0 {
		return strconv.Itoa(large) + unit
	}
	return strconv.Itoa(large) + unit + " " + strconv.Itoa(small) + smaller
}

// count is a number with its thousands apart.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// counted is a number of things, "3 copies".
func counted(n int, one string) string {
	many := one + "s"
	switch {
	case strings.HasSuffix(one, "y"):
		many = strings.TrimSuffix(one, "y") + "ies"
	case strings.HasSuffix(one, "s"):
		many = one + "es"
	}
	return count(n) + " " + plural(n, one, many)
}

// words splits a text at its spaces, but for those within code spans.
func words(text string) []string {
	var all []string
	open := false
	for _, word := range strings.Fields(text) {
		if open {
			all[len(all)-1] += " " + word
		} else {
			all = append(all, word)
		}
		open = open != (strings.Count(word, "`")%2 == 1)
	}
	return all
}

// columns is where prose is broken.
const columns = 118

// prose writes a paragraph or a point of a list, broken at columns; what follows the first line of a point is indented.
func prose(b *strings.Builder, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	indent := ""
	if head, _, ok := strings.Cut(text, " "); ok && (head == "*" || strings.TrimLeft(head, "0123456789") == ".") {
		indent = strings.Repeat(" ", len(head)+1)
	}
	at := 0
	for i, word := range words(text) {
		switch {
		case i == 0:
		case at+1+len(word) > columns:
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteString("\n")
}

// rate is events per second, for people.
func rate(r float64) string {
	if r >= 100 {
		return count(int(math.Round(r))) + "/s"
	}
	return decimal(r) + "/s"
}

// ceilTo rounds up to a multiple.
func ceilTo(n float64, multiple int) int {
	return int(math.Ceil(n/float64(multiple))) * multiple
}

// ceilPower rounds up to a power of two.
func ceilPower(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// mebibytes is a size as the configuration takes it, rounded up.
func mebibytes(n int64) string { return strconv.FormatInt((n+1<<20-1)>>20, 10) + "MiB" }

// iec is a size for people.
func iec(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 {
		return count(int(math.Round(f))) + " " + units[i]
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + units[i]
}

// percent is a share, for people.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 3, 64) + " %" }

// decimal is a number of no more than three figures, or a whole one.
func decimal(n float64) string {
	switch {
	case n >= 100:
		return count(int(math.Round(n)))
	case n > 0 && n < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// ordinal is 1st, 2nd, ...
func ordinal(n int) string {
	suffix := "th"
	if n%100/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
