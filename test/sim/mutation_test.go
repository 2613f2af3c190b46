package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation is a mistake in the engine that the oracle must find.
type mutation struct {
	name      string
	file      string // below the module's root
	old, with string // old stands once in file
	// also is a second place in file.
	also, alsoWith string
	invariant      string // one that is broken by it, as the oracle reports it
	test           string // that finds it; empty: the seeds
}

// mutations are the mistakes that other engines make, and some of our own.
func mutations() []mutation {
	return []mutation{
		{
			name: "commit the polled head", file: "processor/tracker/tracker.go",
			old:       "	if !slices.IsSorted(offsets) {\n",
			with:      "	if t.next >= 0 {\n		m := doneMap{commit: t.next}\n		return t.next, m.encode(tag)\n	}\n	if !slices.IsSorted(offsets) {\n",
			invariant: "invariant 1",
		},
		{
			name: "skip the map of completed offsets", file: "processor/tracker/metadata.go",
			old:       `base64.RawStdEncoding.EncodeToString(m.bytes)`,
			with:      `base64.RawStdEncoding.EncodeToString(nil)`,
			invariant: "invariant 2",
		},
		{
			name: "write outcomes outside the transaction of their offsets", file: "processor/settle/transaction.go",
			old:       "	if err == nil {\n		err = s.addOffsets(ctx, g, batches)\n	}\n",
			with:      "	if err == nil {\n		if err = s.client.EndTransaction(ctx, kgo.TryCommit); err == nil {\n			if err = s.client.BeginTransaction(); err == nil {\n				err = s.addOffsets(ctx, g, batches)\n			}\n		}\n	}\n",
			invariant: "invariant 2",
		},
		{
			name: "deliver before the time", file: "processor/unit/waiting.go",
			old:       "func (w *waiting) due(now time.Time) *item {\n",
			with:      "func (w *waiting) due(now time.Time) *item {\n	now = now.Add(200 * time.Millisecond)\n",
			invariant: "invariant 5",
		},
		{
			name: "commit without the group's generation", file: "processor/settle/transaction.go",
			old:       "commit.Group, commit.Generation, commit.MemberID = s.group, g.id, g.member",
			with:      `commit.Group, commit.Generation, commit.MemberID = s.group, -1, ""`,
			invariant: "invariant 2",
		},
		{
			name: "settle what was done as another member", file: "processor/ownership.go",
			old:      "return u != nil && u.Owner() == owner && o.member == member",
			with:     "return u != nil && u.Owner() == owner && (o.member == member || true)",
			also:     "return len(o.units) > 0 && o.member != member",
			alsoWith: "return len(o.units) > 0 && o.member != member && false",
			test:     "TestMember", invariant: "is settled nowhere",
		},
		{
			name: "let every event own its key", file: "processor/claim/arbiter.go",
			old:       "case !ok || !a.holds(held, q.At):",
			with:      "case !ok || !a.holds(held, q.At) || true:",
			invariant: "invariant 3",
		},
		{
			name: "forget the claims of the owner before", file: "processor/facts/restore.go",
			old:       "			if err := f.Arbiter.Restore(&c); err != nil {\n",
			with:      "			_ = c\n			if err := error(nil); err != nil {\n",
			invariant: "invariant 3",
		},
		{
			name: "take a lost ending for a commit", file: "processor/settle/settler.go",
			old:       "committed, err = s.resolve(ctx, mine); err == nil && !committed",
			with:      "committed, err = s.resolve(ctx, mine); err == nil && !committed && false",
			invariant: "invariant 1",
		},
		{
			name: "keep trying an endpoint that fails", file: "processor/breaker/breaker.go",
			old:       "	case b.state == closed:\n		return Admission{OK: true}",
			with:      "	case true:\n		return Admission{OK: true}",
			invariant: "invariant 8",
		},
		{
			name: "let nobody wait in line", file: "processor/unit/line.go",
			old:       "if l == nil || it.place.number <= l.Turn() ||",
			with:      "if l == nil || it.place.number > 0 ||",
			invariant: "strict order",
		},
		{
			name: "start before the one before is settled", file: "processor/unit/line.go",
			old:       "return l == nil || l.Clear()",
			with:      "return l == nil || true",
			invariant: "strict order",
		},
		{
			name: "forget the line of the owner before", file: "processor/facts/restore.go",
			old:       "	f.Lines[l.EndpointID] = &l\n",
			with:      "	_ = l\n",
			invariant: "strict order",
		},
		{
			name: "skip what cannot be read", file: "processor/unit/intake.go",
			old:       "	u.buryLetter(it, letter)\n",
			with:      "	_ = letter\n	u.outcome(it)\n",
			invariant: "invariant 1",
		},
	}
}

// TestMutations proves that the oracle can fail: with each mistake put into the
// engine, some of the first seeds must break the promise that it breaks. It builds
// this package anew for each, so it runs only when BARNABAS_SIM_MUTATIONS is set
// (make sim does).
func TestMutations(t *testing.T) {
	t.Parallel()
	if os.Getenv("BARNABAS_SIM_MUTATIONS") == "" {
		t.Skip("BARNABAS_SIM_MUTATIONS is not set")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutations() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			binary := m.build(t, root)
			const seeds = 120
			for seed := range seeds {
				if bytes.Contains(m.run(t, binary, seed), []byte(m.invariant)) {
					t.Logf("%s: found by seed %d", m.name, seed)
					return
				}
			}
			require.Failf(t, "the oracle is blind", "%q is not found by the first %d seeds", m.name, seeds)
		})
	}
}

// build makes the test binary of this package with the mistake in it.
func (m mutation) build(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.old), "%s has changed: the mutation %q must be written anew", m.file, m.name)
	text := strings.Replace(string(source), m.old, m.with, 1)
	if m.also != "" {
		require.Equal(t, 1, strings.Count(text, m.also), "%s has changed: the mutation %q must be written anew", m.file, m.name)
		text = strings.Replace(text, m.also, m.alsoWith, 1)
	}
	dir := t.TempDir()
	mutated := filepath.Join(dir, "mutated.go")
	require.NoError(t, os.WriteFile(mutated, []byte(text), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	binary := filepath.Join(dir, "sim.test")

	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./test/sim")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// run runs one seed on it; that it fails is what is hoped for. An engine with a
// mistake may also go on for ever.
func (m mutation) run(t *testing.T, binary string, seed int) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	test := "^TestSeeds$"
	if m.test != "" {
		test = m.test
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", test, "-seed", strconv.Itoa(seed))
	out, _ := cmd.CombinedOutput()
	return out
}
