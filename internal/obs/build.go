package obs

import (
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Build is what this binary was made from.
type Build struct {
	Version  string `json:"version"`  // a tag, or "dev"
	Commit   string `json:"commit"`   // empty: not built inside a repository
	Modified bool   `json:"modified"` // with uncommitted changes
	Go       string `json:"go"`
}

// ReadBuild reads what the Go tool has noted in the binary. version, when not
// empty, is what the release build stamped with -ldflags.
func ReadBuild(version string) Build {
	b := Build{Version: version}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Go = info.GoVersion
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	return b
}

func (b Build) String() string {
	s := "barnabas " + b.Version
	if b.Commit != "" {
		s += " (" + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return fmt.Sprintf("%s %s", s, b.Go)
}

// register exposes the build as a metric that is always 1.
func (b Build) register(reg prometheus.Registerer) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "barnabas_build_info",
		Help: "Always 1; the labels tell what this process was built from.",
	}, []string{"version", "commit", "goversion"})
	reg.MustRegister(g)
	g.WithLabelValues(b.Version, b.Commit, b.Go).Set(1)
}
