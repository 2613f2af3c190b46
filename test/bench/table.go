package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteTables prints the result for people, in Markdown: conditions, targets, and a table for each kind of scenario.
func (r *Result) WriteTables(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.\n", r.Conditions.At.Format("2006-01-02"), r.Conditions)
	r.targets(&b)
	for _, part := range []struct {
		kind  Kind
		title string
		write func(*strings.Builder, []Scenario)
	}{
		{Throughput, "Delivered per second, events preloaded", throughputTable},
		{Latency, "From produce to arrival, in milliseconds", latencyTable},
		{Sending, "The API", sendingTable},
		{Isolation, "Isolation", isolationTable},
		{StartUp, "Start-up and memory", startUpTable},
	} {
		var of []Scenario
		for _, s := range r.Scenarios {
			if s.Kind == part.kind {
				of = append(of, s)
			}
		}
		if len(of) > 0 {
			fmt.Fprintf(&b, "\n**%s**\n\n", part.title)
			part.write(&b, of)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

func (r *Result) targets(b *strings.Builder) {
	fmt.Fprintf(b, "\n**Targets**\n\n")
	head(b, "target", "wanted", "got", "verdict")
	for _, j := range r.Targets {
		got := short(j.Got)
		if j.Verdict == NotRun {
			got = absent
		}
		row(b, j.Target, j.Wanted, got, string(j.Verdict))
	}
}

func throughputTable(b *strings.Builder, all []Scenario) {
	head(b, "events for", "Barnabas /s", "bare loop /s", "its workers", "ratio",
		"CPU s per 1,000: processor", "broker", "bare loop", "processor's peak, MB")
	for _, s := range all {
		row(b, s.What, s.show(System, PerSecond), s.show(BareLoop, PerSecond), s.show(BareLoop, Workers), s.showRatio(System, BareLoop, PerSecond),
			s.show(System, ProcessorCPU), s.show(System, BrokerCPU), s.show(BareLoop, BareCPU), s.show(System, Peak))
	}
}

func latencyTable(b *strings.Builder, all []Scenario) {
	head(b, "scenario", "way", "p50", "p99", "max", "p50 beside Kafka alone", "p99 beside it")
	for _, s := range all {
		for _, variant := range []string{KafkaOnly, System, ByAPI, Answers} {
			row(b, s.What, variant, s.show(variant, P50), s.show(variant, P99), s.show(variant, Max),
				s.showRatio(variant, KafkaOnly, P50), s.showRatio(variant, KafkaOnly, P99))
		}
	}
}

func sendingTable(b *strings.Builder, all []Scenario) {
	head(b, "what", "accepted/s", "p50, ms", "p99, ms", "max, ms", "without verdict", "refused", "CPU s per 1,000 of the API", "its peak, MB")
	for _, s := range all {
		row(b, fmt.Sprintf("%s, %s connections", s.What, s.show(System, Workers)), s.show(System, Accepted),
			s.show(System, P50), s.show(System, P99), s.show(System, Max), s.show(System, Pending), s.show(System, Refused),
			s.show(System, APICPU), s.show(System, APIPeak))
		row(b, fmt.Sprintf("%s, %d times: the repeats", Repeated, atOnce), absent,
			s.show(Repeated, P50), s.show(Repeated, P99), s.show(Repeated, Max), s.show(Repeated, Pending), s.show(Repeated, Refused), absent, absent)
	}
}

func isolationTable(b *strings.Builder, all []Scenario) {
	head(b, "scenario", "variant", "delivered/s", "p50, ms", "p99, ms", "max, ms", "delivered/s beside alone", "p99 beside alone")
	for _, s := range all {
		for _, variant := range []string{Without, With} {
			row(b, s.What, variant, s.show(variant, PerSecond), s.show(variant, P50), s.show(variant, P99), s.show(variant, Max),
				s.showRatio(variant, Without, PerSecond), s.showRatio(variant, Without, P99))
		}
	}
}

func startUpTable(b *strings.Builder, all []Scenario) {
	head(b, "scenario", "variant", "start to ready, ms", "to the first delivery, ms", "resident, MB", "peak, MB", "resident bytes for each", "on disk")
	for _, s := range all {
		for _, variant := range []string{Empty, First, Again} {
			row(b, s.What, variant, s.show(variant, Ready), s.show(variant, FirstCame), s.show(variant, Resident), s.show(variant, Peak),
				s.show(variant, BytesPerKey), s.show(variant, DiskPerKey))
		}
	}
}

// show is the median of a figure.
func (s *Scenario) show(variant string, f Figure) string { return shown(s.Median(variant, f)) }

func (s *Scenario) showRatio(variant, to string, f Figure) string {
	return shown(s.Ratio(variant, to, f))
}

const absent = "–"

func shown(v float64, ok bool) string {
	if !ok {
		return absent
	}
	return short(v)
}

// short is a number with three digits that count, or all before the point.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// head writes the first two lines of a table whose first column is words.
func head(b *strings.Builder, names ...string) {
	row(b, names...)
	b.WriteString("|---|" + strings.Repeat("--:|", len(names)-1) + "\n")
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
