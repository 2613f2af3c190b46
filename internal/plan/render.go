package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Render writes the plan as a Markdown document.
func Render(w io.Writer, in Input) error {
	p, err := Make(in)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, p.Markdown()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// RenderJSON writes the plan as one indented JSON object: see Plan.
func RenderJSON(w io.Writer, in Input) error {
	p, err := Make(in)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// Markdown is the plan for people.
func (p Plan) Markdown() string {
	var b strings.Builder
	p.Schedule.markdown(&b)
	p.Bound.markdown(&b, p.Openings)
	return b.String()
}

func (s Schedule) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "# What happens when a receiver fails\n\n## The retry schedule\n\n")
	fmt.Fprintf(b, "A delivery gets **%d attempts**. The wait before a retry is drawn anew each time, uniformly from zero to\n"+
		"its longest (full jitter); the failure of the last attempt makes it a dead letter.\n\n", s.Attempts)
	t := table{{"attempt", "wait before it", "mean", "drawn mean", "since acceptance, mean", "at most", "tier of the longest wait"}}
	t = append(t, []string{"1", "none", "", "", "0s", "0s", ""})
	for _, r := range s.Retries {
		t = append(t, []string{
			strconv.Itoa(r.Number + 1), "0 to " + span(r.MaxSeconds), span(r.MeanSeconds), span(r.DrawnMeanSeconds),
			span(r.CumulativeMean), span(r.CumulativeMax), span(r.LongestTier),
		})
	}
	t.write(b)
	fmt.Fprintf(b, "\nThe whole schedule takes %s on average and %s at most. Drawn %s times by the policy itself: %s on\naverage, %s at most.\n",
		span(s.MeanSeconds), span(s.MaxSeconds), count(s.Ladders), span(s.DrawnMeanSeconds), span(s.DrawnMaxSeconds))
	fmt.Fprintf(b, "\nThe lifetime is %s from acceptance, holds included: ", span(s.LifetimeSeconds))
	if s.LifetimeSeconds > s.MaxSeconds {
		fmt.Fprintf(b, "the schedule by itself always fits, with %s to spare for holds.\n", span(s.LifetimeSeconds-s.MaxSeconds))
	} else {
		fmt.Fprintf(b, "**shorter than the schedule can be**, so that late waits are\ndrawn from what is left of it; %s %% of the drawn deliveries ended by it.\n",
			strconv.FormatFloat(100*s.ExpiredShare, 'f', 1, 64))
	}
	if s.MaxRetryAfterSeconds > 0 {
		fmt.Fprintf(b, "\nA `Retry-After` of the receiver prolongs a wait, never shortens it, and is cut to %s.\n", span(s.MaxRetryAfterSeconds))
	} else {
		fmt.Fprintf(b, "\nA `Retry-After` of the receiver is ignored.\n")
	}
}

func (bd Bound) markdown(b *strings.Builder, openings []Opening) {
	fmt.Fprintf(b, "\n## Requests to an endpoint that does nothing but fail\n\n")
	fmt.Fprintf(b, "Its breaker opens after %d hard failures in a row (connection, TLS, DNS, timeout, 429, 5xx) or %d of any kind, while at\n"+
		"most %d %s in flight. Then it is left alone, and one probe at the end of each opening decides about the next:\n\n",
		bd.ThresholdHard, bd.ThresholdAny, bd.MaxInFlight, plural(bd.MaxInFlight, "request is", "requests are"))
	t := table{{"opening", "shortest", "mean", "longest"}}
	for i, o := range openings {
		name := strconv.Itoa(o.Number)
		if i == len(openings)-1 {
			name += " and later"
		}
		t = append(t, []string{name, span(o.MinSeconds), span(o.MeanSeconds), span(o.MaxSeconds)})
	}
	t.write(b)

	fmt.Fprintf(b, "\nSo in **any** window of this length it gets at most:\n\n")
	head := []string{"window", "probes", "requests, hard failures", "requests, any failures", "down for long", "rewrites of one held delivery"}
	if bd.Endpoints > 0 {
		head = append(head, fmt.Sprintf("%s such endpoints", count(bd.Endpoints)))
	}
	t = table{head}
	for _, w := range bd.Windows {
		row := []string{w.Name, count(w.Probes), count(w.RequestsHard), count(w.RequestsAny), count(w.LongDown), count(w.Rewrites)}
		if bd.Endpoints > 0 {
			row = append(row, count(w.AllEndpoints))
		}
		t = append(t, row)
	}
	t.write(b)
	fmt.Fprintf(b, "\nrequests = failures that open it + (in flight - 1) + probes. \"Down for long\" is after the openings have reached their\n"+
		"longest. How many deliveries wait does not enter: they are held until after the opening that they met, and so are\n"+
		"rewritten once per opening at most. An endpoint's rate limit holds besides.\n"+
		"A process that dies may forget the failures that it had counted, or its probe: each such death adds %s at most.\n",
		counted(bd.ThresholdAny+bd.MaxInFlight-1, "request"))
}

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

func counted(n int, one string) string { return count(n) + " " + plural(n, one, one+"s") }
