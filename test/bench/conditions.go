package bench

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/testkit"
)

// Conditions are what a run was made under. Figures of other conditions are not comparable, only ratios.
type Conditions struct {
	At         time.Time `json:"at"`
	CPU        string    `json:"cpu"`
	Cores      int       `json:"cores"`
	Go         string    `json:"go"` // that built the binary under test
	Kafka      string    `json:"kafka"`
	Java       string    `json:"java"`
	Load       string    `json:"load"`   // averages of 1, 5 and 15 minutes at the start
	Commit     string    `json:"commit"` // of the binary under test; "+" after it: with changes
	Rounds     int       `json:"rounds"`
	Events     float64   `json:"events"` // share of the full number and of the full durations
	Size       int       `json:"size"`
	Partitions int       `json:"partitions"`
	Heap       int       `json:"heap_mib"` // of the broker
	Set        []string  `json:"set"`      // settings that are not the defaults
}

// readConditions asks the machine. What it does not say is "unknown"; only the binary must be there.
func readConditions(ctx context.Context, o *Options) (Conditions, error) {
	build, err := buildinfo.ReadFile(o.Binary)
	if err != nil {
		return Conditions{}, fmt.Errorf("the binary under test: %w", err)
	}
	c := Conditions{
		At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Go: build.GoVersion, Commit: Commit(build),
		Rounds: o.Rounds, Events: o.Events, Size: o.Size, Partitions: o.Partitions, Heap: o.Heap, Set: append([]string{}, o.Set...),
		CPU: unknown, Load: unknown, Kafka: unknown, Java: unknown,
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		c.CPU = CPUModel(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) >= 3 {
			c.Load = strings.Join(fields[:3], " ")
		}
	}
	if root, err := testkit.Root(); err == nil {
		if c.Commit == unknown { // built without version control's word, as -buildvcs=false does
			c.Commit = checkout(ctx, root)
		}
		if pom, err := os.ReadFile(filepath.Join(root, "deploy", "kafka-local", "pom.xml")); err == nil {
			c.Kafka = first(`<kafka\.version>([^<]+)<`, string(pom))
		}
	}
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", java)
	}
	if text, err := exec.CommandContext(ctx, java, "-version").CombinedOutput(); err == nil {
		c.Java = first(`version "([^"]+)"`, string(text))
	}
	return c, nil
}

const unknown = "unknown"

// first is what the expression's first group matches.
func first(expression, text string) string {
	if m := regexp.MustCompile(expression).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return unknown
}

// CPUModel is the model of the first processor in /proc/cpuinfo's text.
func CPUModel(text string) string {
	return strings.TrimSpace(first(`(?m)^model name\s*:(.*)$`, text))
}

// Commit is what a binary was built from, shortened; a "+" says that there were changes besides.
func Commit(build *buildinfo.BuildInfo) string {
	commit, changed := unknown, ""
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return commit + changed
}

// checkout is the same, of the checkout.
func checkout(ctx context.Context, root string) string {
	head, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return unknown
	}
	changes, err := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain").Output()
	if err != nil || len(changes) > 0 {
		return strings.TrimSpace(string(head)) + "+"
	}
	return strings.TrimSpace(string(head))
}

// String says them in one line.
func (c Conditions) String() string {
	text := fmt.Sprintf("%s, %d cores, %s, Apache Kafka %s, Java %s with a heap of %d MiB, load average %s at the start, commit %s, %d rounds, payloads of %d bytes, %d partitions",
		c.CPU, c.Cores, c.Go, c.Kafka, c.Java, c.Heap, c.Load, c.Commit, c.Rounds, c.Size, c.Partitions)
	if c.Events != 1 {
		text += fmt.Sprintf(", %v of the full number of events and durations", c.Events)
	}
	if len(c.Set) > 0 {
		text += ", set: " + strings.Join(c.Set, " ")
	}
	return text
}
