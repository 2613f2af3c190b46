package realkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Environment variables that steer [Open].
const (
	// EnvAddress holds a cluster's bootstrap addresses, "host:port" separated by commas.
	EnvAddress = "BARNABAS_TEST_KAFKA"
	// EnvWay forces one [Way]; then that way's failure is an error and no other is tried.
	EnvWay = "BARNABAS_TEST_KAFKA_WAY"
	// EnvImage names the image of the container way; empty means [DefaultImage].
	EnvImage = "BARNABAS_TEST_KAFKA_IMAGE"
)

// startTimeout bounds everything that Start waits for, a first fetch of the jars included.
const startTimeout = 5 * time.Minute

// ErrUnavailable is the sentinel of a way that this machine does not offer; the error's text says what is missing.
var ErrUnavailable = errors.New("not available here")

// Way is how a cluster came to be.
type Way string

// The ways, in the order in which they are tried.
const (
	WayAddress   Way = "address"
	WayContainer Way = "container"
	WayJars      Way = "jars"
)

// Cluster is an Apache Kafka that tests may use.
type Cluster struct {
	way    Way
	addrs  []string
	detail string
	close  func() error
}

// Bootstrap returns the addresses to connect to, "host:port".
func (c *Cluster) Bootstrap() []string { return append([]string(nil), c.addrs...) }

// Way returns how the cluster came to be.
func (c *Cluster) Way() Way { return c.way }

// String says in one line which Kafka this is.
func (c *Cluster) String() string {
	return fmt.Sprintf("Apache Kafka at %s (%s: %s)", strings.Join(c.addrs, ","), c.way, c.detail)
}

// Close ends the cluster if Open started it, and drops its data. It does nothing to a cluster given by address.
func (c *Cluster) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// Open finds or starts a cluster and returns when it answers. ctx bounds the start only.
func Open(ctx context.Context) (*Cluster, error) {
	address, image := os.Getenv(EnvAddress), os.Getenv(EnvImage)
	if image == "" {
		image = DefaultImage
	}
	switch way := Way(os.Getenv(EnvWay)); way {
	case "":
	case WayAddress:
		return openAddress(ctx, address)
	case WayContainer:
		return openContainer(ctx, image)
	case WayJars:
		return openJars(ctx)
	default:
		return nil, fmt.Errorf("%s=%q: want %s, %s or %s", EnvWay, way, WayAddress, WayContainer, WayJars)
	}

	if address != "" {
		return openAddress(ctx, address)
	}
	// An engine that is there and has the image but cannot run it is a fault to show, not one to step around.
	c, err := openContainer(ctx, image)
	if errors.Is(err, ErrUnavailable) {
		return openJars(ctx)
	}
	return c, err
}

// Start is [Open] for one test: it fails the test where no cluster can be had, and closes it when the test ends.
func Start(t testing.TB) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := Open(ctx)
	if err != nil {
		t.Fatalf("real Kafka: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("real Kafka: close: %v", err)
		}
	})
	t.Log(c)
	return c
}

func openAddress(ctx context.Context, list string) (*Cluster, error) {
	var addrs []string
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s holds no address: %w", EnvAddress, ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	if err := waitReady(ctx, addrs, nil); err != nil {
		return nil, fmt.Errorf("%s=%s: %w", EnvAddress, list, err)
	}
	return &Cluster{way: WayAddress, addrs: addrs, detail: EnvAddress}, nil
}

func openJars(ctx context.Context) (*Cluster, error) {
	b, err := StartBroker(ctx, BrokerConfig{})
	if err != nil {
		return nil, err
	}
	return &Cluster{
		way:    WayJars,
		addrs:  []string{b.Addr()},
		detail: fmt.Sprintf("deploy/kafka-local/run, pid %d", b.PID()),
		close:  b.Close,
	}, nil
}
