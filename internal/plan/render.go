package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
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
	v := p.Volume
	fmt.Fprintf(&b, "# Plan: %s events/s to %s, %s of payload\n\n", strconv.FormatFloat(v.Rate, 'f', -1, 64), counted(v.Endpoints, "endpoint"), iec(int64(v.Payload)))
	fmt.Fprintf(&b, "Worked out by `barnabas plan` from the volume below and the configuration, by the code that does the work. Each number\n"+
		"comes with its formula. What is not known from these is [at the end](#what-this-page-does-not-know).\n")
	p.Verdict.markdown(&b)
	v.markdown(&b, p.Load)
	p.Contract.markdown(&b)
	p.Schedule.markdown(&b)
	p.Bound.markdown(&b, p.Openings)
	p.Outage.markdown(&b, p)
	p.isolation(&b)
	p.strict(&b)
	p.limits(&b)
	p.Load.markdown(&b, p.Volume)
	p.Memory.markdown(&b, p)
	p.Disk.markdown(&b, p)
	p.deadLetters(&b)
	p.signing(&b)
	p.backpressure(&b)
	unknown(&b)
	return b.String()
}
