package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Tenure is one stint of a unit at a worker, as its log tells it. While a worker is frozen its stint goes on in its
// own belief, beside that of the next owner.
type Tenure struct {
	PID  int
	Unit int32
	From time.Time // assigned
	To   time.Time // given up, lost, or the end of the process
}

// tenures reads the workers' logs: who believed to own what, and when units were taken away.
func (f *fleet) tenures() (all []Tenure, losses []Cut, err error) {
	f.mu.Lock()
	boots := slices.Clone(f.boots)
	f.mu.Unlock()
	for _, p := range boots {
		log, err := os.Open(p.Log)
		if err != nil {
			return nil, nil, fmt.Errorf("read the log of %s: %w", p.Name, err)
		}
		t, l, err := ReadTenures(log, p.PID, p.Ended)
		_ = log.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", p.Log, err)
		}
		all, losses = append(all, t...), append(losses, l...)
	}
	return all, losses, nil
}

// Lines of a worker's log that say where units are.
const (
	lineAssigned = "units assigned"
	lineGivenUp  = "units given up"
	lineLost     = "units lost"
	// lineUndrained begins the line of a unit that was given up with outcomes that were not settled.
	lineUndrained = "unit ran out of time to drain"
)

// ReadTenures reads the log of one process that has ended.
func ReadTenures(log io.Reader, pid int, ended time.Time) (all []Tenure, losses []Cut, err error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	since := map[int32]time.Time{}
	for lines.Scan() {
		if !strings.Contains(lines.Text(), `"msg":"unit`) {
			continue
		}
		var line struct {
			Time  time.Time `json:"time"`
			Msg   string    `json:"msg"`
			Units []int32   `json:"units"`
			Unit  int32     `json:"unit"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // the last line of a killed process may be cut off
		}
		if strings.HasPrefix(line.Msg, lineUndrained) {
			losses = append(losses, Cut{Kind: CutUndrained, PID: pid, From: line.Time, To: line.Time, Units: []int32{line.Unit}})
		}
		switch line.Msg {
		case lineAssigned:
			for _, u := range line.Units {
				since[u] = line.Time
			}
		case lineGivenUp, lineLost:
			for _, u := range line.Units {
				all = append(all, Tenure{PID: pid, Unit: u, From: since[u], To: line.Time})
				delete(since, u)
			}
			if line.Msg == lineLost && len(line.Units) > 0 {
				losses = append(losses, Cut{Kind: CutLost, PID: pid, From: line.Time, To: line.Time, Units: line.Units})
			}
		}
	}
	for u, from := range since {
		all = append(all, Tenure{PID: pid, Unit: u, From: from, To: ended})
	}
	return all, losses, lines.Err()
}
