package plan

import (
	"fmt"
	"strconv"
	"strings"
)

func (s Schedule) markdown(b *strings.Builder) {
	b.WriteString("\n## The retry schedule\n\n")
	prose(b, "A delivery gets **%d attempts**. The wait before a retry is drawn anew each time, uniformly from zero to its longest (full "+
		"jitter); the failure of the last attempt makes it a dead letter.", s.Attempts)
	b.WriteString("\n")
	t := table{{"attempt", "wait before it", "mean", "drawn mean", "since acceptance, mean", "at most", "tier of the longest wait"}}
	t = append(t, []string{"1", "none", "", "", "0s", "0s", ""})
	for _, r := range s.Retries {
		t = append(t, []string{
			strconv.Itoa(r.Number + 1), "0 to " + span(r.MaxSeconds), span(r.MeanSeconds), span(r.DrawnMeanSeconds),
			span(r.CumulativeMean), span(r.CumulativeMax), span(r.LongestTier),
		})
	}
	t.write(b)
	b.WriteString("\n")
	prose(b, "The whole schedule takes %s on average and %s at most. Drawn %s times by the policy itself: %s on average, %s at most.",
		span(s.MeanSeconds), span(s.MaxSeconds), count(s.Ladders), span(s.DrawnMeanSeconds), span(s.DrawnMaxSeconds))
	b.WriteString("\n")
	fits := fmt.Sprintf("the schedule by itself always fits, with %s to spare for holds.", span(s.LifetimeSeconds-s.MaxSeconds))
	if s.LifetimeSeconds <= s.MaxSeconds {
		fits = fmt.Sprintf("**shorter than the schedule can be**, so that late waits are drawn from what is left of it; %s of the drawn "+
			"deliveries ended by it.", percent(s.ExpiredShare))
	}
	prose(b, "The lifetime is %s from acceptance, holds included: %s", span(s.LifetimeSeconds), fits)
	b.WriteString("\n")
	if s.MaxRetryAfterSeconds > 0 {
		prose(b, "A `Retry-After` of the receiver prolongs a wait, never shortens it, and is cut to %s.", span(s.MaxRetryAfterSeconds))
	} else {
		prose(b, "A `Retry-After` of the receiver is ignored.")
	}
}

func (bd Bound) markdown(b *strings.Builder, openings []Opening) {
	b.WriteString("\n## Requests to an endpoint that does nothing but fail\n\n")
	prose(b, "Its breaker opens after %d hard failures in a row (connection, TLS, DNS, timeout, 429, 5xx) or %d of any kind, while at "+
		"most %d %s in flight. Then it is left alone, and one probe at the end of each opening decides about the next:",
		bd.ThresholdHard, bd.ThresholdAny, bd.MaxInFlight, plural(bd.MaxInFlight, "request is", "requests are"))
	b.WriteString("\n")
	t := table{{"opening", "shortest", "mean", "longest"}}
	for i, o := range openings {
		name := strconv.Itoa(o.Number)
		if i == len(openings)-1 {
			name += " and later"
		}
		t = append(t, []string{name, span(o.MinSeconds), span(o.MeanSeconds), span(o.MaxSeconds)})
	}
	t.write(b)

	b.WriteString("\nSo in **any** window of this length it gets at most:\n\n")
	t = table{{"window", "probes", "requests, hard failures", "requests, any failures", "down for long"}}
	for _, w := range bd.Windows {
		t = append(t, []string{w.Name, count(w.Probes), count(w.RequestsHard), count(w.RequestsAny), count(w.LongDown)})
	}
	t.write(b)
	b.WriteString("\n")
	prose(b, "* opening k lasts at least min(open_for * 2^(k-1), open_max) * (1 - jitter); probes = how many of these fit into the window")
	prose(b, "* requests = failures that open it + (in flight - 1) + probes")
	prose(b, "* down for long = window / the least of the longest opening + 1, once the openings have reached their longest")
	b.WriteString("\n")
	prose(b, "How many deliveries wait does not enter. An endpoint's rate limit holds besides. A process that dies may forget the failures "+
		"that it had counted, or its probe: each such death adds %s at most.", counted(bd.ThresholdAny+bd.MaxInFlight-1, "request"))
}

func (o Outage) markdown(b *strings.Builder, p Plan) {
	b.WriteString("\n## When every endpoint fails\n\n")
	prose(b, "%s do nothing but fail. Then **at most so many requests go out** in any window of this length, from all processes together, "+
		"however many events wait:", counted(p.Volume.Endpoints, "endpoint"))
	b.WriteString("\n")
	t := table{{"window", "by the breakers", "if the failures are hard", "by `limits.rate`", "by `limits.in_flight`, all hang", "requests at most", "if all hang"}}
	for _, w := range o.Windows {
		byRate := "not set"
		if w.ByRate > 0 {
			byRate = count(w.ByRate)
		}
		t = append(t, []string{
			w.Name, count(w.ByBreakers), count(w.ByBreakersHard), byRate, count(w.ByInFlight), "**" + count(w.Requests) + "**", count(w.RequestsHung),
		})
	}
	t.write(b)
	b.WriteString("\n")
	prose(b, "* by the breakers = endpoints * requests to one (the table before)")
	prose(b, "* by `limits.rate` = processes * (rate * window + a tenth of a second's worth)")
	prose(b, "* by `limits.in_flight` = processes * in_flight * (1 + window / timeouts.headers), where all take the request and never answer, and "+
		"none has a shorter timeout of its own")
	prose(b, "* requests at most = the least of breakers and rate; the number of events, their rate and the backlog do not enter")
	o.holds(b, p)
}

func (o Outage) holds(b *strings.Builder, p Plan) {
	w := p.Bound.Windows
	b.WriteString("\n")
	prose(b, "What waits is kept in Kafka, and is written again once per opening. %s begin to wait in each hour, and %s wait when the first "+
		"of them reach their lifetime (rate * lifetime). **Each of them** is written:", count(o.WaitingPerHour), count(o.WaitingMost))
	b.WriteString("\n")
	t := table{{"writes of one waiting delivery", "a minute", "an hour", "a day", "formula"}}
	row := func(name string, of func(Window) int, formula string) {
		t = append(t, []string{name, count(of(w[0])), count(of(w[1])), count(of(w[2])), formula})
	}
	row("at most", func(w Window) int { return w.Rewrites }, "openings that it touches: probes + 1, or 2 + n where m(2) + ... + m(1+n) < window")
	row("at most, each probe hangs", func(w Window) int { return w.RewritesHung },
		"that + (openings * timeouts.max_total + the time until it opens) / lanes.max_age")
	row("at most, slots or `limits.rate` are short", func(w Window) int { return w.RewritesShort }, "that + 1 + window / lanes.max_age")
	row("at most, the look-ahead is full", func(w Window) int { return w.RewritesFull },
		"that * (1 + passes of the longest hold through tiers), or that + 1 + window / first tier")
	t.write(b)
	b.WriteString("\n")
	prose(b, "Drawn with the policy: %s times in the first hour, %s times an hour once its endpoint is down for long. So an hour in which "+
		"every endpoint is down makes %s writes at most (those that have begun to wait * an hour's), and %s as drawn (they wait for half of it "+
		"on average).", decimal(o.HoldsFirstHour), decimal(o.HoldsLater), count(o.WritesFirstHour), count(o.WritesDrawn))
}
