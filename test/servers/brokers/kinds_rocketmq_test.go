package brokers_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func init() {
	// The client notices a broker that was killed after 30 s, and a consumer needs a few seconds to
	// get its queues.
	kinds["RocketMQ"] = kind{open: openRocketMQ, publisher: publishToRocketMQ, deadLetters: deadLettersOfRocketMQ, start: startRocketMQ, life: 30 * time.Second}
}

func rocketOptions() *rocketmqidem.Options {
	return &rocketmqidem.Options{Topic: queue, Group: "effect", Logger: quiet}
}

// rocketServers returns the addresses of a URL: the name server's and the broker's.
func rocketServers(url string) (*rocketmqidem.Servers, string) {
	names, broker, _ := strings.Cut(url, "/")
	return &rocketmqidem.Servers{NameServers: []string{names}}, broker
}

func openRocketMQ(ctx context.Context, url string) (source, error) {
	servers, broker := rocketServers(url)
	if err := rocketmqidem.Create(ctx, servers, &rocketmqidem.TopicOptions{Brokers: []string{broker}, Queues: 6}, rocketOptions()); err != nil {
		return nil, err
	}
	return rocketmqidem.Open(ctx, servers, rocketOptions())
}

func publishToRocketMQ(_ context.Context, url string) (outbox.Publisher, error) {
	servers, _ := rocketServers(url)
	return rocketmqidem.NewPublisher(servers, quiet)
}

func deadLettersOfRocketMQ(ctx context.Context, url string) (mqidem.DeadLetters, io.Closer, error) {
	servers, _ := rocketServers(url)
	p, err := rocketmqidem.OpenDeadLetters(ctx, servers, rocketOptions())
	if err != nil {
		return nil, nil, err
	}
	return p, closer{func() { _ = p.Close() }}, nil
}

// startRocketMQ starts the real servers. The name server tells clients the broker's address, so no
// proxy can be put before it.
func startRocketMQ(t *testing.T) *broker {
	t.Helper()
	server := servertest.StartRocketMQ(t)
	return &broker{url: server.NameServer + "/" + server.Broker, again: true, restart: func(t *testing.T) {
		t.Helper()
		server.Kill()
		server.Restart(t)
	}}
}
