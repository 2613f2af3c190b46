package realkafka_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
)

// These say what a machine lacks, and so need no Kafka. They set environment variables, hence are not parallel.

func TestOpen_RefusesAnUnknownWay(t *testing.T) {
	t.Setenv(realkafka.EnvWay, "magic")
	_, err := realkafka.Open(t.Context())
	require.ErrorContains(t, err, `"magic"`)
	require.ErrorContains(t, err, "container")
}

func TestOpen_AForcedWayIsNotReplacedByAnother(t *testing.T) {
	t.Setenv(realkafka.EnvWay, string(realkafka.WayAddress))
	t.Setenv(realkafka.EnvAddress, " , ")
	_, err := realkafka.Open(t.Context())
	require.ErrorIs(t, err, realkafka.ErrUnavailable)
	require.ErrorContains(t, err, realkafka.EnvAddress)
}

func TestOpen_NamesTheAddressThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := l.Addr().String()
	require.NoError(t, l.Close())

	t.Setenv(realkafka.EnvWay, "")
	t.Setenv(realkafka.EnvAddress, dead)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = realkafka.Open(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, dead)
}

func TestStartBroker_SaysThatJavaIsMissing(t *testing.T) {
	t.Setenv("JAVA_HOME", t.TempDir())
	_, err := realkafka.StartBroker(t.Context(), realkafka.BrokerConfig{})
	require.ErrorContains(t, err, "Java 17 or newer is needed")
}

func TestStartBroker_SaysThatJavaIsTooOld(t *testing.T) {
	t.Setenv("JAVA_HOME", fakeJava(t, "11.0.2"))
	_, err := realkafka.StartBroker(t.Context(), realkafka.BrokerConfig{})
	require.ErrorContains(t, err, "is version 11")
}

func TestStartBroker_SaysThatMavenIsMissing(t *testing.T) {
	t.Setenv("JAVA_HOME", fakeJava(t, "17.0.1"))
	t.Setenv("KAFKA_LOCAL_CACHE", t.TempDir()) // nothing fetched yet
	t.Setenv("PATH", pathWithout(t))
	_, err := realkafka.StartBroker(t.Context(), realkafka.BrokerConfig{})
	require.ErrorContains(t, err, "Maven is needed")
}

// fakeJava is a JAVA_HOME whose java knows nothing but its version.
func fakeJava(t *testing.T, version string) string {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "bin"), 0o750))
	script := "#!/bin/sh\necho 'openjdk version \"" + version + "\" 2024-01-01' >&2\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o700))
	return home
}

// pathWithout is a PATH with the tools that the scripts use and without Maven.
func pathWithout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"bash", "cat", "dirname", "mkdir", "sed"} {
		found, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(found, filepath.Join(dir, tool)))
	}
	return dir
}
