package realkafka

import (
	"context"
	"fmt"
	"os"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

// DefaultImage is what deploy/kafka-image/build makes. Any other must hold the scripts that the testcontainers
// module calls, as confluentinc/confluent-local does.
const DefaultImage = "barnabas-kafka:4.1.1"

// containerEnv are settings of testcontainers that hold unless the environment has its own. The reaper is an image
// of its own, which offline machines cannot pull: whoever opens a cluster closes it. And the address is loopback,
// where testcontainers would take the bridge's if it believes to run inside a container itself.
func containerEnv() error {
	for k, v := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true",
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
	} {
		if _, set := os.LookupEnv(k); set {
			continue
		}
		if err := os.Setenv(k, v); err != nil {
			return fmt.Errorf("set %s: %w", k, err)
		}
	}
	return nil
}

func openContainer(ctx context.Context, image string) (*Cluster, error) {
	if err := containerEnv(); err != nil {
		return nil, err
	}
	if err := findImage(ctx, image); err != nil {
		return nil, err
	}
	ctr, err := kafka.Run(ctx, image, testcontainers.WithEnv(containerSettings()))
	stop := func() error {
		if err := testcontainers.TerminateContainer(ctr); err != nil {
			return fmt.Errorf("terminate container: %w", err)
		}
		return nil
	}
	if err != nil {
		_ = stop() // The start's own error tells more.
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	addrs, err := ctr.Brokers(ctx)
	if err == nil {
		err = waitReady(ctx, addrs, nil)
	}
	if err != nil {
		_ = stop() // As above.
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	return &Cluster{
		way:    WayContainer,
		addrs:  addrs,
		detail: fmt.Sprintf("image %s, container %.12s", image, ctr.GetContainerID()),
		close:  stop,
	}, nil
}

// containerSettings are those of deploy/kafka-local/run that the module has no or other values for.
func containerSettings() map[string]string {
	return map[string]string{
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE":            "false",
		"KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS":         "1000",
		"KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
		"KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS":         "4",
	}
}

// findImage says whether a Docker engine answers and has the image; it never pulls.
func findImage(ctx context.Context, image string) (err error) {
	// The library panics where it finds no engine to talk to.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("no Docker engine (%v): %w", p, ErrUnavailable)
		}
	}()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("no Docker engine (%w): %w", err, ErrUnavailable)
	}
	defer func() { _ = docker.Close() }()
	if _, err := docker.ImageInspect(ctx, image); err != nil {
		return fmt.Errorf("the Docker engine has no image %s (%w): %w", image, err, ErrUnavailable)
	}
	return nil
}
